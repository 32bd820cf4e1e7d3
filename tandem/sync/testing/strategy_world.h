// sync/testing/strategy_world.h: the replicas of a run as threads, on CPU devices, under any strategy.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "tandem/sync/strategies.h"
#include "tandem/sync/testing/replica_world.h"

namespace tandem::sync {

struct StrategyWorld {
  int shards = 4, replicas = 1;
  StrategyOptions strategy{};
  std::vector<model::OptimizerOptions> optimizer{};
  model::FlatParameters::Options flat{};
  std::function<std::shared_ptr<torch::nn::Module>()> build;
  std::function<void(Replica&)> before_begin = [](Replica&) {};
};

using StrategyWork = std::function<void(Replica&, Strategy&)>;

/// Runs `work` on all replicas after begin(); the whole state at the end, copied. A replica that fails, or whose
/// parameters are not the first one's, is a failure of the test.
inline model::NamedTensors state_after(const StrategyWorld& world, const StrategyWork& work) {
  const std::vector<Placement> placements = place_on_cpu(world.shards, world.replicas);
  const std::vector<std::unique_ptr<comm::Group>> groups = comm::make_local_group(world.replicas);
  std::vector<model::NamedTensors> states(placements.size());
  std::vector<std::string> outcomes(placements.size()), parameters(placements.size());
  std::vector<std::jthread> threads;
  for (std::size_t r = 0; r < placements.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        Replica replica(placements[r], world.build(), 1, world.optimizer, world.flat);
        const std::unique_ptr<Strategy> strategy = make_strategy(world.strategy, replica, *groups[r]);
        world.before_begin(replica);
        strategy->begin(kNoLimits);
        work(replica, *strategy);
        for (const auto& [name, tensor] : strategy->whole_state(kNoLimits))
          states[r].emplace_back(name, tensor.clone());
        parameters[r] = model::state_sha256(replica.state());
      } catch (const std::exception& error) {
        groups[r]->abort(error.what());
        outcomes[r] = error.what();
      }
    });
  }
  threads.clear();
  for (std::size_t r = 0; r < placements.size(); ++r) {
    EXPECT_EQ(outcomes[r], "") << "replica " << r;
    EXPECT_EQ(parameters[r], parameters[0]) << "replica " << r;
  }
  return states.front();
}

}  // namespace tandem::sync
