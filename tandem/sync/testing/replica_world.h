// sync/testing/replica_world.h: the replicas of a run as threads, on CPU devices.
#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tandem/comm/local_group.h"
#include "tandem/sync/replicated.h"

namespace tandem::sync {

inline const Limits kNoLimits{.deadline = Deadline::infinite(), .stop = {}};

inline std::vector<Placement> place_on_cpu(int shards, int replicas) {
  return place_replicas(std::vector<c10::Device>(static_cast<std::size_t>(replicas), c10::Device(c10::kCPU)), shards);
}

using BuildModule = std::function<std::shared_ptr<torch::nn::Module>(int replica)>;
using Work = std::function<void(Replica&, Replicated&)>;

/// Runs `work` on `replicas` threads that share `shards` shards, each with plain SGD of learning rate 0.5 and a
/// strategy that has begun; what() of every failure, or "". A failure aborts the group.
inline std::vector<std::string> run_world(int shards, int replicas, const MeanOptions& options, const Work& work,
                                          const BuildModule& build) {
  const std::vector<Placement> placements = place_on_cpu(shards, replicas);
  const std::vector<std::unique_ptr<comm::Group>> groups = comm::make_local_group(replicas);
  std::vector<std::string> outcomes(placements.size());
  std::vector<std::jthread> threads;
  for (std::size_t r = 0; r < placements.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        Replica replica(placements[r], build(static_cast<int>(r)), 1, {model::SgdOptions{.lr = 0.5}});
        Replicated strategy(replica, *groups[r], options);
        strategy.begin(kNoLimits);
        work(replica, strategy);
      } catch (const std::exception& error) {
        groups[r]->abort(error.what());
        outcomes[r] = error.what();
      }
    });
  }
  threads.clear();
  return outcomes;
}

/// One step: `pass` does the forward and backward pass of a shard, inside open() and close(), and returns its weight.
inline StepReport step_over_shards(Replica& replica, Replicated& strategy,
                                   const std::function<double(int shard)>& pass) {
  for (int shard = replica.placement().mine.begin; shard < replica.placement().mine.end; ++shard) {
    strategy.open(shard);
    strategy.close(pass(shard), 0.0);
  }
  return strategy.step(1.0, kNoLimits);
}

}  // namespace tandem::sync
