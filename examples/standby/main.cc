// Ranks train a model, and the process that holds its variables may die: another rank has made each step, too, and
// takes over.
//
//     tandem launch --ranks 3 --on-death continue -- standby 100
//
// Rank 0 kills itself at step 100, as a host that fails would.
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <csignal>
#include <iostream>
#include <limits>

#include "tandem/base/error.h"
#include "tandem/comm/world.h"
#include "tandem/learner/replica_team.h"

namespace {

using namespace tandem;

void train(std::int64_t dies_at) {
  const comm::World world = comm::open_world(comm::launcher_environment(), {});
  const learner::Ranks ranks(world.group);
  sync::SyncReplicasOptions strategy;
  strategy.on_death = sync::OnDeath::kGoOn;
  strategy.standby = sync::Standby::kAnotherRank;
  learner::ReplicaTeam team(
      ranks.place({c10::kCPU}, ranks.size()), {.optimizer = {model::SgdOptions{.lr = 0.3}}, .strategy = strategy},
      [](const sync::Placement&) { return std::make_shared<torch::nn::LinearImpl>(4, 1); }, ranks);
  team.run([&](learner::Member& member) {
    auto& net = dynamic_cast<torch::nn::LinearImpl&>(member.replica.module());
    const auto in_a_minute = [] { return Limits{.deadline = Deadline::after(std::chrono::minutes(1)), .stop = {}}; };
    sync::StepReport report;
    std::int64_t lost = 0;
    while (report.step < 300) {
      if (world.rank == 0 && report.step >= dies_at) (void)std::raise(SIGKILL);
      member.strategy.open(world.rank);  // each rank has one shard
      const torch::Tensor x = torch::rand({32, 4}), loss = (net.forward(x) - x.sum(1, true)).square().mean();
      (loss * 32).backward();
      member.strategy.close(32, loss.item<double>());  // the mean over 32 rows
      report = member.strategy.step(1, in_a_minute());
      lost += report.verdict == sync::Verdict::kLost ? 1 : 0;
    }
    member.strategy.leave(in_a_minute());  // all that live have the same parameters now
    std::cout << "rank " << world.rank << " of " << world.size << ": " << report.step << " steps, error " << report.loss
              << "; " << lost << " of its gradients lost with rank 0" << std::endl;
  });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(argc > 1 ? std::stoll(argv[1]) : std::numeric_limits<std::int64_t>::max());
    return 0;
  } catch (const tandem::ConfigError& error) {
    std::cerr << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 3;
  }
}
