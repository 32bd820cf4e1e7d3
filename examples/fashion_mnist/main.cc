// Trains a small CNN on Fashion-MNIST, data-parallel over the replicas that --devices names.
//
//     fashion_mnist --devices cpu:2 --shards 2 --epochs 2
//
// or as several processes: tandem launch --ranks 2 -- fashion_mnist --shards 2 --epochs 2
//
// Progress goes to stderr; the last line, on stdout, is one JSON object.
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <iomanip>
#include <iostream>
#include <map>
#include <optional>

#include "dataset.h"
#include "net.h"
#include "straggler.h"
#include "tandem/base/error.h"
#include "tandem/comm/world.h"
#include "tandem/comm/world_flags.h"
#include "tandem/device/device_set.h"
#include "tandem/learner/replica_team.h"
#include "tandem/model/autocast.h"
#include "tandem/model/init.h"

namespace fashion_mnist {
namespace {

using namespace tandem;

constexpr std::chrono::minutes kPatience{5};  // how long a replica waits for the others in one step

enum class Precision { kFloat32, kBfloat16 };  // of matrix products and convolutions in the forward pass

struct Options {
  std::string data = "/usr/share/datasets/fashion-mnist";
  std::string devices = "cpu";
  int shards = 1, epochs = 2;
  std::int64_t batch_size = 128, seed = 1;
  double learning_rate = 2e-3;
  sync::StrategyKind strategy = sync::StrategyKind::kReplicated;
  std::optional<int> replicas_to_aggregate;  // of sync_replicas; nothing: all
  sync::LocalStepsOptions local_steps;
  std::pair<int, double> slow{0, 1.0};  // a replica of the run, and how many times as long its steps take
  Precision precision = Precision::kFloat32;
  comm::WorldFlags world;
};

// Of --strategy local_steps.
void add_local_steps_options(CLI::App& app, sync::LocalStepsOptions& options) {
  const auto words = [](const auto& map) { return CLI::CheckedTransformer(map).description(""); };
  const std::map<std::string, sync::Outer> outers{{"average", sync::Outer::kAverage},
                                                  {"nesterov", sync::Outer::kNesterov}};
  const std::map<std::string, sync::Wire> wires{
      {"full", sync::Wire::kFull}, {"int8", sync::Wire::kInt8}, {"int4", sync::Wire::kInt4}};
  app.add_option("--every", options.every, "Of --strategy local_steps: a replica's steps between two exchanges")
      ->capture_default_str();
  app.add_option("--outer", options.outer,
                 "Likewise: what is done with the mean way of the replicas: average, or nesterov (DiLoCo)")
      ->transform(words(outers))
      ->default_str("average");
  app.add_option("--outer-learning-rate", options.outer_lr, "Of --outer nesterov")->capture_default_str();
  app.add_option("--fragments", options.fragments, "Parts of the parameters that are exchanged in turn")
      ->capture_default_str();
  app.add_option("--overlap", options.overlap, "Steps that a replica makes while an exchange travels")
      ->capture_default_str();
  app.add_option("--wire", options.wire, "How ways travel: full, int8 or int4")
      ->transform(words(wires))
      ->default_str("full");
}

int parse(int argc, char** argv, Options& options) {
  CLI::App app(
      "Trains a small CNN on Fashion-MNIST, data-parallel.\n\nExample: fashion_mnist --devices cpu:2 --shards 2 "
      "--epochs 2");
  app.add_option("--data", options.data, "Folder of the four .gz files")->capture_default_str();
  app.add_option("--devices", options.devices, "One replica each: cpu:N, or cuda:0,1")->capture_default_str();
  app.add_option("--shards", options.shards, "Parts of a batch; fixed, they give the same bits on any devices")
      ->capture_default_str();
  app.add_option("--epochs", options.epochs, "Passes over the training images")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--batch-size", options.batch_size, "Images of a step, over all shards")->capture_default_str();
  app.add_option("--learning-rate", options.learning_rate, "Of AdamW")->capture_default_str();
  const std::map<std::string, sync::StrategyKind> strategies{{"replicated", sync::StrategyKind::kReplicated},
                                                             {"divided", sync::StrategyKind::kDivided},
                                                             {"parameter_server", sync::StrategyKind::kParameterServer},
                                                             {"asynchronous", sync::StrategyKind::kAsynchronous},
                                                             {"sync_replicas", sync::StrategyKind::kSyncReplicas},
                                                             {"local_steps", sync::StrategyKind::kLocalSteps}};
  app.add_option("--strategy", options.strategy,
                 "Who keeps the optimizer's state and updates what: replicated, divided or parameter_server; "
                 "asynchronous, which waits for nobody and has other numbers each time; sync_replicas, which makes "
                 "steps of the first gradients to come; or local_steps, for slow links: replicas make steps of their "
                 "own, and exchange after some of them")
      ->transform(CLI::CheckedTransformer(strategies).description(""))
      ->default_str("replicated");
  app.add_option("--replicas-to-aggregate", options.replicas_to_aggregate,
                 "Of --strategy sync_replicas: gradients of a step (default: one of each replica)")
      ->check(CLI::Range(1, 1024));
  add_local_steps_options(app, options.local_steps);
  app.add_option("--slow", options.slow,
                 "A replica that sleeps until its steps take FACTOR times as long, to see what a straggler costs")
      ->option_text("REPLICA FACTOR");
  app.add_option("--autocast", options.precision, "off, or bf16: forward passes in bfloat16, parameters stay float32")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Precision>{{"off", Precision::kFloat32}, {"bf16", Precision::kBfloat16}}))
      ->default_str("off");
  app.add_option("--backend", options.world.backend, comm::kBackendHelp);
  app.add_option("--hosts-by", options.world.hosts_by, comm::kHostsByHelp);
  app.add_option("--network", options.world.network, comm::kNetworkHelp);
  app.add_option("--encrypt", options.world.encrypt, comm::kEncryptHelp);
  app.add_flag("--insecure", options.world.is_insecure, comm::kInsecureHelp);
  app.add_option("--seed", options.seed, "Of initial parameters, order of images and dropout")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? -1 : 2;
  }
  return 0;
}

struct Result {
  double loss = 0, train_seconds = 0, images_per_s = 0, test_accuracy = 0;
};

sync::StrategyOptions strategy_of(const Options& options) {
  sync::StrategyOptions strategy = sync::options_of(options.strategy);
  auto* synchronous = std::get_if<sync::SyncReplicasOptions>(&strategy);
  if (options.replicas_to_aggregate && synchronous == nullptr)
    throw ConfigError("--replicas-to-aggregate has no effect without --strategy sync_replicas");
  if (synchronous != nullptr) synchronous->replicas_to_aggregate = options.replicas_to_aggregate;
  if (auto* local = std::get_if<sync::LocalStepsOptions>(&strategy)) *local = options.local_steps;
  return strategy;
}

// One pass over the training images on every replica; the mean loss of the run. It ends when its steps are made, also
// for a replica that was too slow to take part in all of them.
double train_epoch(learner::ReplicaTeam& team, const Options& options, int epoch) {
  double mean_loss = 0;
  team.run([&](learner::Member& member) {
    auto& net = dynamic_cast<Net&>(member.replica.module());
    net.train();
    const c10::Device device = member.replica.placement().device;
    const learner::LossFunction loss = [&](const learner::ShardBatch& batch) {
      std::optional<model::Autocast> autocast;  // until the loss is there: the backward pass follows outside
      if (options.precision == Precision::kBfloat16) autocast.emplace(model::AutocastOptions{.device = device.type()});
      return learner::ShardLoss{
          .loss = torch::nn::functional::cross_entropy(net.forward(batch["pixels"]), batch["labels"]),
          .weight = static_cast<double>(batch.valid_rows),
          .outputs = {}};
    };
    member.learner.begin_pass(learner::Order::kShuffled);
    const std::int64_t minibatches = member.learner.batch().plan().minibatches;
    Straggler straggler(member.replica.placement().replica == options.slow.first ? options.slow.second : 1);
    double sum = 0;
    std::int64_t step = 0, b = 0;
    for (; b < minibatches && step < minibatches * epoch; ++b) {
      straggler.lag();
      const Limits limits{.deadline = Deadline::after(kPatience), .stop = {}};
      const sync::StepReport report = member.learner.step(b, loss, 1.0, limits).step;
      sum += report.loss;
      step = report.step;
    }
    if (member.replica.placement().local == 0) mean_loss = sum / static_cast<double>(b);
  });
  return mean_loss;
}

// Share of the test images whose class is right; each replica of the run looks at a part of them.
double test_accuracy(learner::ReplicaTeam& team, const Images& test) {
  std::vector<double> right(static_cast<std::size_t>(team.size()));
  team.run([&](learner::Member& member) {
    const torch::NoGradGuard no_grad;
    auto& net = dynamic_cast<Net&>(member.replica.module());
    net.eval();
    const sync::Placement& place = member.replica.placement();
    const std::int64_t rows = test.pixels.size(0), begin = rows * place.replica / place.replicas,
                       end = rows * (place.replica + 1) / place.replicas;
    for (std::int64_t at = begin; at < end; at += 500) {
      const std::int64_t stop = std::min(at + 500, end);
      const torch::Tensor classes = net.forward(test.pixels.slice(0, at, stop).to(place.device)).argmax(1).cpu();
      right[static_cast<std::size_t>(place.local)] += (classes == test.labels.slice(0, at, stop)).sum().item<double>();
    }
  });
  double sum = 0;
  for (const std::vector<double>& rank : team.ranks().gather(right)) {
    for (const double count : rank) sum += count;
  }
  return sum / static_cast<double>(test.pixels.size(0));
}

// The effective batches: gradients and images of a step.
void write_steps(std::ostream& json, const sync::StepSizes& sizes) {
  json << R"(,"steps":{"made":)" << sizes.steps;
  const auto write = [&](const char* name, sync::OverSteps sync::StepSizes::*figure) {
    json << ",\"" << name << R"(":{"min":)" << (sizes.*figure).least << R"(,"mean":)" << sizes.mean_of(figure)
         << R"(,"max":)" << (sizes.*figure).most << "}";
  };
  write("gradients", &sync::StepSizes::gradients);
  write("effective_batch", &sync::StepSizes::rows);
  json << "}";
}

void print_result(const Options& options, learner::ReplicaTeam& team, const Result& result) {
  // The next three are collective, so every rank calls them.
  const std::vector<learner::ReplicaTeam::Work> work = team.work();
  const model::NamedTensors state = team.state();
  const std::optional<learner::GradientReport> gradients = team.take_gradients();
  if (!team.ranks().leads()) return;
  learner::Member first = team.member(0);
  model::NamedTensors parameters;
  for (const auto& entry : first.replica.module().named_parameters())
    parameters.emplace_back(entry.key(), entry.value().detach());
  std::ostringstream json;  // numbers and hashes only, so that nothing needs escaping
  json << std::setprecision(17) << R"({"epochs":)" << options.epochs << R"(,"test_accuracy":)" << result.test_accuracy
       << R"(,"train_loss":)" << result.loss << R"(,"train_s":)" << result.train_seconds << R"(,"images_per_s":)"
       << result.images_per_s << R"(,"params_sha256":")" << model::bytes_sha256(parameters) << R"(","state_sha256":")"
       << model::state_sha256(state) << '"';
  if (gradients) write_steps(json, gradients->sizes);
  json << R"(,"replicas":[)";
  for (std::size_t replica = 0; replica < work.size(); ++replica) {
    const auto& [rows, cpu_seconds, staleness] = work[replica];
    json << (replica > 0 ? "," : "") << R"({"rows":)" << rows << R"(,"thread_cpu_s":)" << cpu_seconds
         << R"(,"staleness_mean":)" << staleness.mean() << R"(,"staleness_max":)" << staleness.most
         << R"(,"gradients":)" << staleness.offered << R"(,"dropped":)" << staleness.dropped << R"(,"waited_s":)"
         << staleness.wait_seconds;
    if (gradients) json << R"(,"applied":)" << gradients->replicas[replica].totals.applied;
    json << "}";
  }
  json << "]}\n";
  if (gradients) std::cerr << learner::table_of(gradients->replicas, gradients->sizes);
  std::cout << json.str() << std::flush;
}

void train(const Options& options, const learner::Ranks& ranks) {
  const std::vector<sync::Placement> placements =
      ranks.place(device::parse_device_set(options.devices), options.shards);
  if (options.slow.first < 0 || options.slow.first >= placements.front().replicas || !(options.slow.second >= 1)) {
    throw ConfigError("--slow " + std::to_string(options.slow.first) + " " + std::to_string(options.slow.second) +
                      " names no replica of " + std::to_string(placements.front().replicas) +
                      ", or no factor of at least 1");
  }
  const Images train = read(options.data, Part::kTrain), test = read(options.data, Part::kTest);
  const learner::TeamOptions team_options{
      .run_seed = static_cast<std::uint64_t>(options.seed),
      .rng = model::RngOrder::kShards,
      .optimizer = {model::AdamOptions{
          .lr = options.learning_rate, .weight_decay = 1e-2, .decay = model::AdamOptions::Decay::kDecoupled}},
      .flat = {},
      .strategy = strategy_of(options),
      .patience = kPatience};
  learner::ReplicaTeam team(
      placements, team_options,
      [&](const sync::Placement& placement) {
        const std::uint64_t seed = derive_seed(static_cast<std::uint64_t>(options.seed), SeedPurpose::kParameters, 0);
        auto net = model::build_seeded(seed, [] { return std::make_shared<Net>(); });
        net->to(placement.device);
        return net;
      },
      ranks);
  team.run([&](learner::Member& member) {
    const learner::LoadPlan& plan =
        member.learner.batch().load({.columns = {{"pixels", train.pixels}, {"labels", train.labels}}, .states = {}},
                                    options.batch_size, learner::Tail::kDrop);
    if (member.replica.placement().replica == 0) {
      const sync::Placement& place = member.replica.placement();
      std::cerr << "fashion_mnist: " << plan.offered << " images, " << plan.used << " in each epoch; a step takes "
                << plan.minibatch_shard_rows() * options.shards << " of them, " << plan.minibatch_shard_rows()
                << " a shard; the first of " << place.replicas << " replicas has "
                << plan.minibatch_shard_rows() * place.mine.size() << '\n';
      if (!plan.notice.empty()) std::cerr << plan.notice << '\n';
    }
  });
  Result result;
  for (int epoch = 1; epoch <= options.epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    result.loss = train_epoch(team, options, epoch);
    // Without lockstep the replicas are not equal before.
    team.run(
        [](learner::Member& member) { member.strategy.agree({.deadline = Deadline::after(kPatience), .stop = {}}); });
    result.train_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    result.test_accuracy = test_accuracy(team, test);
    result.images_per_s =
        static_cast<double>(team.member(0).learner.batch().plan().used) * epoch / result.train_seconds;
    if (!ranks.leads()) continue;
    std::cerr << "epoch " << epoch << '/' << options.epochs << ": loss " << result.loss << ", test accuracy "
              << result.test_accuracy << ", " << static_cast<std::int64_t>(result.images_per_s) << " images/s\n";
  }
  print_result(options, team, result);
}

// Under a launcher this process is one of several ranks; else it is alone.
void run(const Options& options) {
  const comm::World world = comm::open_world(comm::launcher_environment(), comm::read_world_flags(options.world));
  const learner::Ranks ranks(world.group);
  if (ranks.leads()) std::cerr << world.description << '\n';
  try {
    train(options, ranks);
  } catch (const std::exception& error) {
    ranks.abort(error.what());
    throw;
  }
}

}  // namespace
}  // namespace fashion_mnist

int main(int argc, char** argv) {
  fashion_mnist::Options options;
  if (const int outcome = fashion_mnist::parse(argc, argv, options); outcome != 0) return outcome < 0 ? 0 : outcome;
  try {
    fashion_mnist::run(options);
    return 0;
  } catch (const tandem::ConfigError& error) {
    std::cerr << "fashion_mnist: " << error.what() << '\n';
    return 2;
  } catch (const tandem::RunError& error) {
    std::cerr << "fashion_mnist: " << error.what() << '\n';
    return 3;
  } catch (const std::exception& error) {
    std::cerr << "fashion_mnist: " << error.what() << '\n';
    return 70;
  }
}
