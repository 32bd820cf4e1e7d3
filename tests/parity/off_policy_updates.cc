// off_policy_updates FOLDER: two turns of learning of SAC of both kinds, TD3 and DQN in several forms. Of each it
// writes the networks before and after, and the rows that they learned from, once by autograd and once by kernels;
// off_policy_parity.py makes the same turns in Python's torch.
#include <ATen/ATen.h>

#include <filesystem>
#include <string>
#include <type_traits>

#include "tandem/base/atomic_file.h"
#include "tandem/base/text.h"
#include "tandem/model/files/safetensors.h"
#include "tandem/rl/algo/dqn/dqn.h"
#include "tandem/rl/algo/off_policy/critic_choice.h"
#include "tandem/rl/algo/sac/discrete_sac.h"
#include "tandem/rl/algo/sac/sac.h"
#include "tandem/rl/algo/td3/td3.h"

namespace {

using namespace tandem::rl;
using tandem::concat;
namespace model = tandem::model;
namespace learner = tandem::learner;

constexpr std::int64_t kRows = 32;

Spec spec_with(ActionSpace action) {
  Spec spec;
  spec.id = "Parity-v0";
  spec.observation = {{.name = "obs", .type = ElementType::kFloat32, .shape = {5}, .low = {}, .high = {}}};
  spec.action = std::move(action);
  return spec;
}

// Some rows end the task, and weights differ, so that both count.
TransitionRows random_rows(const Spec& spec, int noises) {
  TransitionRows rows = make_transitions(spec, kRows, noises);
  for (at::Tensor* each : {&rows.observation[0], &rows.next_observation[0]}) each->normal_();
  for (at::Tensor& noise : rows.noise) noise.normal_();
  rows.reward.normal_();
  rows.discount.bernoulli_(0.8).mul_(0.97);
  rows.weight.uniform_(0.2, 1);
  if (rows.action.is_floating_point()) {
    rows.action.uniform_(-1, 1);
  } else {
    rows.action.random_(0, std::get<Discrete>(spec.action).n);
  }
  // Each row forbids at most one choice.
  for (at::Tensor* mask : {&rows.action_mask, &rows.next_action_mask}) {
    if (mask->defined()) mask->fill_(1).scatter_(1, at::randint(0, mask->size(1), {kRows, 1}, at::kLong), 0);
  }
  return rows;
}

void write(const std::filesystem::path& path, const model::NamedTensors& tensors) {
  std::string bytes;
  model::write_safetensors(tensors, {}, [&](std::span<const std::byte> piece) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  tandem::write_file(path, bytes);
}

// What follows from the seed of a turn, which the other side cannot draw.
void append_noise(const std::string& name, const NetNoise& noise, model::NamedTensors& all) {
  for (std::size_t i = 0; i < noise.size(); ++i) {
    all.emplace_back(concat(name, ".", i, ".inputs"), at::tensor(noise[i].inputs));
    all.emplace_back(concat(name, ".", i, ".outputs"), at::tensor(noise[i].outputs));
  }
}

template <typename Policy, typename Options>
void append_choices(int turn, std::uint64_t seed, Policy& policy, const Options& options, model::NamedTensors& all) {
  if constexpr (std::is_same_v<Options, DqnOptions>) {
    if (options.exploration != DqnExploration::kNoisy) return;
    const DqnNoise noise = draw_noise(policy.network(), seed);
    for (const auto& [who, its] : {std::pair("own", &noise.own), std::pair("target", &noise.target)}) {
      append_noise(concat("rows.", turn, ".", who, options.streams == DqnStreams::kOne ? ".net" : ".value"), its->net,
                   all);
      append_noise(concat("rows.", turn, ".", who, ".advantage"), its->advantage, all);
    }
  }
  if constexpr (std::is_base_of_v<CriticOptions, Options>) {
    const std::vector<std::size_t> chosen = chosen_critics(options, seed);
    const std::vector<std::int64_t> places(chosen.begin(), chosen.end());
    all.emplace_back(concat("rows.", turn, ".chosen"), at::tensor(places));
  }
}

void append_rows(int turn, const TransitionRows& rows, model::NamedTensors& all) {
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    all.emplace_back(concat("rows.", turn, ".", name), tensor.clone());
  };
  add("observation", rows.observation[0]);
  add("next_observation", rows.next_observation[0]);
  add("action", rows.action);
  add("reward", rows.reward);
  add("discount", rows.discount);
  add("weight", rows.weight);
  if (rows.action_mask.defined()) add("action_mask", rows.action_mask);
  if (rows.next_action_mask.defined()) add("next_action_mask", rows.next_action_mask);
  for (std::size_t i = 0; i < rows.noise.size(); ++i) add(concat("noise.", i), rows.noise[i]);
}

// Two turns on one replica, with what they learned from.
template <typename Policy, typename Agent, typename Options>
void learn(const std::filesystem::path& path, const Spec& spec, const std::shared_ptr<Policy>& policy,
           const NetworkOptions& networks, const Options& options) {
  learner::TeamOptions team_options;
  team_options.strategy = tandem::sync::with_mean(tandem::sync::options_of(tandem::sync::StrategyKind::kReplicated),
                                                  {.divisor = tandem::sync::Divisor::kTotal});
  Agent::set_optimizers(options, team_options);
  learner::ReplicaTeam team(tandem::sync::place_replicas({c10::Device(c10::kCPU)}, 1), team_options,
                            [&](const tandem::sync::Placement&) { return policy; });
  Agent agent(team.member(0), *policy, networks, options, tandem::detect_instruction_set());
  model::NamedTensors all;
  const auto keep = [&](const std::string& when) {
    for (const auto& [name, tensor] : model::named_parameters_of(*policy))
      all.emplace_back(when + name, tensor.clone());
  };
  keep("before.");
  for (int turn = 0; turn < 2; ++turn) {
    const TransitionRows rows = random_rows(spec, agent.noises());
    const auto seed = static_cast<std::uint64_t>(turn + 11);
    append_rows(turn, rows, all);
    append_choices(turn, seed, *policy, options, all);
    std::vector<learner::Batch> batches(1);
    take_columns(rows, batches.front());
    std::vector<OffPolicySums> sums(1);
    std::vector<std::vector<float>> errors(1);
    team.run([&](learner::Member& member) {
      member.learner.batch().load_shards(batches, kRows, learner::Tail::kDrop);
      member.learner.begin_pass(learner::Order::kSequential);
      (void)agent.learn({.turn = turn, .seed = seed, .limits = {}}, sums, errors);
    });
    all.emplace_back(concat("errors.", turn), at::tensor(errors.front()));
  }
  keep("after.");
  for (const auto& [name, tensor] : agent.targets()) all.emplace_back("target." + name, tensor.clone());
  write(path, all);
}

void write_all(const std::filesystem::path& folder, LossKernel kernel) {
  const NetworkOptions networks{.hidden = {16, 12}};
  const Spec box = spec_with(Box{{-2, -2, -2}, {2, 2, 2}}), choice = spec_with(Discrete{4});
  const auto generator = [] { return at::make_generator<at::CPUGeneratorImpl>(5); };

  SacOptions sac;
  sac.tau = 0.1;
  sac.batch_size = kRows;
  sac.kernel = kernel;
  // It has no kernels, so both of its files are by autograd.
  for (const bool has_mask : {false, true}) {
    Spec its = choice;
    its.has_action_mask = has_mask;
    learn<DiscreteSacPolicy, DiscreteSac>(folder / (has_mask ? "choices-masked.safetensors" : "choices.safetensors"),
                                          its, std::make_shared<DiscreteSacPolicy>(its, networks, 2, 0.5, generator()),
                                          networks, sac);
  }
  Td3Options td3;
  td3.tau = 0.1;
  td3.batch_size = kRows;
  td3.kernel = kernel;
  const auto write_critics = [&](const std::string& more, const NetworkOptions& with) {
    learn<SacPolicy, Sac>(folder / ("sac" + more + ".safetensors"), box,
                          std::make_shared<SacPolicy>(box, with, sac.critics, 0.5, generator()), with, sac);
    learn<Td3Policy, Td3>(folder / ("td3" + more + ".safetensors"), box,
                          std::make_shared<Td3Policy>(box, with, td3.critics, 0.1, generator()), with, td3);
  };
  write_critics("", networks);
  sac.critics = td3.critics = 4;
  sac.target_critics = td3.target_critics = 2;
  sac.actor_value = ActorValue::kMean;
  NetworkOptions normed = networks;
  normed.critic_norm = CriticNorm::kLayer;
  write_critics("-redq", normed);

  DqnOptions dqn;
  dqn.atoms = 11;
  dqn.least_return = -3;
  dqn.most_return = 3;
  dqn.tau = 0.1;
  dqn.batch_size = kRows;
  dqn.kernel = kernel;
  const auto write_dqn = [&](const std::string& more) {
    const char* const names[] = {"mean", "categorical", "quantiles"};
    const std::string name = concat("dqn-", names[static_cast<int>(dqn.returns)],
                                    dqn.streams == DqnStreams::kOne ? "-max-one" : "-double-dueling", more);
    learn<DqnPolicy, Dqn>(folder / (name + ".safetensors"), choice,
                          std::make_shared<DqnPolicy>(choice, networks, dqn, generator()), networks, dqn);
  };
  for (const DqnReturn returns : {DqnReturn::kMean, DqnReturn::kCategorical, DqnReturn::kQuantiles}) {
    for (const DqnStreams streams : {DqnStreams::kOne, DqnStreams::kDueling}) {
      dqn.returns = returns;
      dqn.streams = streams;
      dqn.target = streams == DqnStreams::kOne ? DqnTarget::kMax : DqnTarget::kDouble;
      write_dqn("");
    }
  }
  // Noisy layers of one stream, and Rainbow's of two.
  dqn.exploration = DqnExploration::kNoisy;
  for (const DqnStreams streams : {DqnStreams::kOne, DqnStreams::kDueling}) {
    dqn.streams = streams;
    dqn.returns = streams == DqnStreams::kOne ? DqnReturn::kMean : DqnReturn::kCategorical;
    dqn.target = streams == DqnStreams::kOne ? DqnTarget::kMax : DqnTarget::kDouble;
    write_dqn("-noisy");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: off_policy_updates FOLDER\n", stderr);
    return 2;
  }
  at::manual_seed(3);
  const std::filesystem::path folder = argv[1];
  for (const auto& [name, kernel] :
       {std::pair("autograd", LossKernel::kOff), std::pair("kernels", LossKernel::kAuto)}) {
    std::filesystem::create_directory(folder / name);
    write_all(folder / name, kernel);
  }
}
