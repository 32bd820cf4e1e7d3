#include <tandem/comm/collectives.h>
#include <tandem/comm/world.h>
#include <tandem/sync/data_parallel.h>
#include <tandem/sync/rank_sampler.h>
#include <torch/torch.h>

#include <filesystem>
#include <iostream>

using namespace tandem;
namespace data = torch::data;

// Points of two spirals, and to which of them each belongs.
struct Spirals : data::datasets::Dataset<Spirals> {
  explicit Spirals(std::int64_t count, std::uint64_t seed) {
    torch::manual_seed(seed);
    kind = torch::randint(0, 2, {count});
    const torch::Tensor along = torch::rand({count}) * 3 + 0.5, angle = along * 2 + kind * M_PI;
    points = torch::stack({along * angle.cos(), along * angle.sin()}, 1) + 0.05 * torch::randn({count, 2});
  }
  data::Example<> get(std::size_t row) override {
    const auto r = static_cast<std::int64_t>(row);
    return {points[r], kind[r]};
  }
  std::optional<std::size_t> size() const override { return points.size(0); }
  torch::Tensor points, kind;
};

// real_loop CHECKPOINT EPOCHS: trains, on one process or several, and goes on from the checkpoint where there is one.
int main(int argc, char** argv) try {
  const std::string file = argc > 1 ? argv[1] : "spirals.pt";
  const std::size_t epochs = argc > 2 ? std::stoul(argv[2]) : 40;
  const comm::World world = comm::open_world(comm::launcher_environment(), {});
  comm::Group& ranks = *world.group;

  Spirals train(961, 1), test(500, 2);
  torch::nn::Sequential net(torch::nn::Linear(2, 64), torch::nn::Tanh(), torch::nn::Linear(64, 64), torch::nn::Tanh(),
                            torch::nn::Linear(64, 2));
  sync::DataParallel parallel(net.ptr(), ranks);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.2).momentum(0.9));
  torch::optim::StepLR schedule(optimizer, /*step_size=*/15, /*gamma=*/0.5);

  std::size_t epoch = 0;
  double best = 0;
  int worse = 0;                        // epochs since the best one
  if (std::filesystem::exists(file)) {  // every rank reads it
    torch::serialize::InputArchive archive;
    archive.load_from(file);
    c10::IValue its_epoch, its_best, its_worse;
    archive.read("epoch", its_epoch);
    archive.read("best", its_best);
    archive.read("worse", its_worse);
    epoch = static_cast<std::size_t>(its_epoch.toInt());
    best = its_best.toDouble();
    worse = static_cast<int>(its_worse.toInt());
    net->load(archive);
    optimizer.load(archive);
    for (std::size_t past = 0; past < epoch; ++past) schedule.step();
    if (world.rank == 0) std::cout << "goes on with epoch " << epoch << '\n';
  }

  const std::size_t batch = 96 / static_cast<std::size_t>(world.size);  // of each rank
  const std::size_t rows = train.size().value(), steps = sync::RankSampler::steps(rows, world.size, batch);
  const auto loader = data::make_data_loader(train.map(data::transforms::Stack<>()),
                                             sync::RankSampler(rows, world.rank, world.size, /*seed=*/3, epoch), batch);
  for (; epoch < epochs && worse < 10; ++epoch) {
    double loss = 0;
    net->train();
    auto next = loader->begin();
    for (std::size_t step = 0; step < steps; ++step) {
      if (next != loader->end()) {
        const torch::Tensor shown = net->forward(next->data);
        parallel.backward(torch::cross_entropy_loss(shown, next->target), static_cast<double>(next->data.size(0)));
        ++next;
      } else {
        parallel.skip();  // this rank has no row in the epoch's last step
      }
      const sync::StepReport report = parallel.average();
      loss += report.loss * report.weight / static_cast<double>(rows);
      torch::nn::utils::clip_grad_norm_(net->parameters(), 1.0);  // of the mean, so it is the same on all ranks
      optimizer.step();
    }
    schedule.step();

    // Each rank looks at its share of the test set.
    const torch::NoGradGuard no_grad;
    net->eval();
    const std::int64_t begin = 500 * world.rank / world.size, end = 500 * (world.rank + 1) / world.size;
    const torch::Tensor guess = net->forward(test.points.slice(0, begin, end)).argmax(1);
    const torch::Tensor right = guess.eq(test.kind.slice(0, begin, end)).to(torch::kDouble);
    const double accuracy = comm::mean(ranks, right.mean().item<double>(), static_cast<double>(right.numel()));
    worse = accuracy > best ? 0 : worse + 1;  // equal on all ranks, so all stop after the same epoch
    best = std::max(best, accuracy);
    if (world.rank > 0) continue;
    std::cout << "epoch " << epoch << " loss " << loss << " accuracy " << accuracy << '\n';
    torch::serialize::OutputArchive archive;
    net->save(archive);
    optimizer.save(archive);
    archive.write("epoch", c10::IValue(static_cast<std::int64_t>(epoch + 1)));
    archive.write("best", c10::IValue(best));
    archive.write("worse", c10::IValue(std::int64_t{worse}));
    archive.save_to(file + ".new");
    std::filesystem::rename(file + ".new", file);
    const sync::StepCosts costs = parallel.report().mean;  // of this rank, over the epoch
    std::cout << "  a step took " << 1e3 * costs.seconds << " ms, of which it waited " << 1e3 * costs.exposed_seconds
              << " ms, and sent " << costs.bytes << " bytes\n";
  }
  ranks.barrier(comm::patient());  // the file is complete when any rank has ended
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 3;
}
