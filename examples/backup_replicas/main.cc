// Three replicas train a model, two gradients make a step, and one replica is slow: the others do not wait for it.
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <array>
#include <iostream>
#include <thread>
#include <vector>

#include "tandem/learner/replica_team.h"

int main() {
  using namespace tandem;
  sync::SyncReplicasOptions strategy;
  strategy.replicas_to_aggregate = 2;
  learner::ReplicaTeam team(sync::place_replicas(std::vector<c10::Device>(3, c10::kCPU), 3),
                            {.optimizer = {model::SgdOptions{.lr = 0.3}}, .strategy = strategy},
                            [](const sync::Placement&) { return std::make_shared<torch::nn::LinearImpl>(4, 1); });
  std::array<std::array<int, 2>, 3> gradients{};  // used and dropped, of each replica
  double error = 0;
  team.run([&](learner::Member& member) {
    const auto me = static_cast<std::size_t>(member.replica.placement().replica);
    auto& net = dynamic_cast<torch::nn::LinearImpl&>(member.replica.module());
    for (std::int64_t step = 0; step < 300;) {
      if (me == 2) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      member.strategy.open(static_cast<int>(me));  // each replica has one shard
      const torch::Tensor x = torch::rand({32, 4}), loss = (net.forward(x) - x.sum(1, true)).square().mean();
      (loss * 32).backward();
      member.strategy.close(32, loss.item<double>());  // the mean over 32 rows
      const Limits limits{.deadline = Deadline::after(std::chrono::minutes(1)), .stop = {}};
      const sync::StepReport report = member.strategy.step(1, limits);
      ++gradients[me][report.verdict == sync::Verdict::kDropped ? 1 : 0];
      step = report.step;
      if (me == 0) error = report.loss;
    }
  });
  for (const auto& [used, dropped] : gradients) std::cout << used << " gradients used, " << dropped << " too late\n";
  std::cout << "mean squared error " << error << '\n';
  return error < 1e-3 ? 0 : 1;
}
