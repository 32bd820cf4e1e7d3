// A rank of a training that fails, for tests:
//
//   failing_rank WHAT [FOLDER PATIENCE_MS]
//
// Rank 1 is the one at fault. `endless` is at no fault: it trains until somebody ends it, and leaves FOLDER/RANK when
// it is well under way. Exits as a program should: 2 for what the user can mend, 3 when the world failed.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <string>

#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/text.h"
#include "tandem/comm/world.h"
#include "tandem/sync/data_parallel.h"

namespace {

using namespace tandem;

constexpr int kInputs = 16, kRows = 4, kFault = 1;

std::shared_ptr<torch::nn::SequentialImpl> net_of(int width) {
  return std::make_shared<torch::nn::SequentialImpl>(
      torch::nn::Linear(kInputs, width), torch::nn::Tanh(), torch::nn::Linear(width, width), torch::nn::Tanh(),
      torch::nn::Linear(width, width), torch::nn::Tanh(), torch::nn::Linear(width, 1));
}

class Training {
 public:
  Training(comm::World& world, int width, Clock::duration patience)
      : rank_(world.rank),
        net_(net_of(width)),
        parallel_(net_, *world.group, {.optimizer = {model::SgdOptions{.lr = 1e-3}}, .patience = patience}) {}

  void step(double factor = 1) {
    const at::Tensor x = at::full({kRows, kInputs}, 0.01 * (rank_ + 1));
    parallel_.backward(net_->forward(x).square().mean() * factor, kRows);
    parallel_.step();
    ++steps_;
  }
  void finish() { parallel_.finish(); }
  [[nodiscard]] int steps() const { return steps_; }

 private:
  const int rank_;
  const std::shared_ptr<torch::nn::SequentialImpl> net_;
  sync::DataParallel parallel_;
  int steps_ = 0;
};

void train_for_ever(comm::World& world, const std::filesystem::path& folder, Clock::duration patience) {
  Training training(world, 700, patience);
  for (;;) {
    training.step();
    if (training.steps() == 3) std::ofstream(folder / std::to_string(world.rank)) << ::getpid();
  }
}

// More than a rank's part of the region has room for; nothing is touched.
void take_more_than_the_machine_has(comm::Group& group) {
  const auto bytes = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  (void)group.allocate(bytes / 2, at::kFloat, at::kCPU);
}

// As where a container's limit is reached: the system has no page to give.
void take_what_is_not_free(comm::Group& group) {
  arm_fault(parse_fault("shm.back:1:enospc"));
  (void)group.allocate(std::int64_t{16} << 20, at::kFloat, at::kCPU);
}

void run(comm::World& world, const std::string& what) {
  const Limits limits{.deadline = Deadline::after(std::chrono::minutes(1)), .stop = {}};
  const bool at_fault = world.rank == kFault;
  Training training(world, what == "model" && at_fault ? 9 : 8, std::chrono::minutes(1));
  for (int step = 0; step < 6; ++step) {
    if (what == "skip" && at_fault && step == 3) continue;
    if (what == "fewer" && at_fault && step == 4) break;
    if (what == "shape" && step == 2) world.group->start_all_reduce(at::zeros({at_fault ? 2001 : 2000})).wait(limits);
    if (what == "memory" && at_fault && step == 2) take_more_than_the_machine_has(*world.group);
    if (what == "container" && at_fault && step == 2) take_what_is_not_free(*world.group);
    training.step(what == "nan" && at_fault && step == 2 ? std::numeric_limits<double>::quiet_NaN() : 1);
  }
  if (what == "fewer") training.finish();
  if (what == "skip" && at_fault) return;
  world.group->barrier(limits);
  std::cout << training.steps() << " steps" << std::endl;
}

}  // namespace

int main(int argc, char** argv) try {
  at::set_num_threads(1);
  torch::manual_seed(1);
  const std::string what = argv[1];
  comm::World world = comm::open_world(comm::launcher_environment(), {});
  if (what == "endless" && argc == 4) {
    train_for_ever(world, argv[2], std::chrono::milliseconds(std::stoi(argv[3])));
  } else {
    run(world, what);
  }
  return 0;
} catch (const tandem::ConfigError& error) {
  std::cerr << error.what() << std::endl;
  return 2;
} catch (const tandem::RunError& error) {
  std::cerr << error.what() << std::endl;
  return 3;
}
