// Three replicas train a model, two gradients make a step, and one replica is slow: the others do not wait for it.
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <iostream>
#include <thread>

#include "tandem/learner/replica_team.h"

int main() {
  using namespace tandem;
  learner::ReplicaTeam team(
      sync::place_replicas(std::vector<c10::Device>(3, c10::kCPU), 3),
      {.optimizer = {model::SgdOptions{.lr = 0.3}}, .strategy = sync::SyncReplicasOptions{.replicas_to_aggregate = 2}},
      [](const sync::Placement&) { return std::make_shared<torch::nn::LinearImpl>(4, 1); });
  team.run([](learner::Member& member) {
    const int me = member.replica.placement().replica;
    auto& net = dynamic_cast<torch::nn::LinearImpl&>(member.replica.module());
    for (sync::StepReport report; report.step < 300;) {
      if (me == 2) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      member.strategy.open(me);  // each replica has one shard
      const torch::Tensor x = torch::rand({32, 4}), loss = (net.forward(x) - x.sum(1, true)).square().mean();
      (loss * 32).backward();
      member.strategy.close(32, loss.item<double>());  // the mean over 32 rows
      report = member.strategy.step(1, {.deadline = Deadline::after(std::chrono::minutes(1)), .stop = {}});
      if (report.step >= 300 && me == 0) std::cout << "mean squared error " << report.loss << '\n';
    }
  });
  const auto report = team.take_gradients();
  for (const auto& [gradients, waited] : report->replicas)
    std::cout << gradients.applied << " gradients used, " << gradients.dropped << " too late\n";
}
