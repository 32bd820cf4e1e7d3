// sync/testing/served_world.h: replicas of a run whose variables lie in the process of replica 0, as threads or as
// processes, and orders for them.
#pragma once
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/types.h>

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tandem/base/mutex.h"
#include "tandem/comm/host_group.h"
#include "tandem/comm/local_group.h"
#include "tandem/concurrency/testing/within.h"
#include "tandem/device/one_core.h"
#include "tandem/shm/testing/process_world.h"
#include "tandem/sync/testing/replica_world.h"
#include "tandem/sync/variables/asynchronous.h"
#include "tandem/sync/variables/sync_replicas.h"

namespace tandem::sync {

/// Replicas of one strategy whose variables lie in the process of replica 0.
template <typename StrategyType, typename Options>
struct ServedWorld {
  /// What a replica's thread or process does, after begin().
  using Work = std::function<void(Replica&, StrategyType&)>;
  int shards = 2, replicas = 2;
  Options options{};
  BuildModule build{};
  model::OptimizerOptions optimizer = model::SgdOptions{.lr = 0.5};
  int replicas_a_process = 1;  // of as_processes(); divides `replicas`

  void play(int rank, comm::Group& group, const Work& work) const {
    Replica replica(place_on_cpu(shards, replicas)[static_cast<std::size_t>(rank)], build(rank), 1, {optimizer});
    StrategyType strategy(replica, group, options);
    try {
      strategy.begin(within(std::chrono::seconds(60)));
      work(replica, strategy);
    } catch (const std::exception& error) {
      strategy.abort(error.what());
      throw;
    }
  }

  /// On threads; what() of every failure, or "".
  [[nodiscard]] std::vector<std::string> on_threads(const Work& work) const {
    const std::vector<std::unique_ptr<comm::Group>> groups = comm::make_local_group(replicas);
    std::vector<std::string> outcomes(groups.size());
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < replicas; ++rank) {
      threads.emplace_back([&, rank] {
        const auto index = static_cast<std::size_t>(rank);
        try {
          play(rank, *groups[index], work);
        } catch (const std::exception& error) {
          groups[index]->abort(error.what());
          outcomes[index] = error.what();
        }
      });
    }
    threads.clear();
    return outcomes;
  }

  /// On threads of processes of this host; what they say is a process's outcome.
  using ProcessWork = std::function<void(Replica&, StrategyType&, const shm::Voice&)>;
  [[nodiscard]] shm::ProcessWorld as_processes(const ProcessWork& work) const {
    const std::string key = shm::unique_key("served");
    return shm::ProcessWorld(replicas / replicas_a_process, [=, *this](int process, const shm::Voice& voice) {
      device::use_one_core();  // first: LibTorch makes its pool anew in a forked process, and not for two at a time
      std::vector<std::jthread> threads;
      for (int thread = 0; thread < replicas_a_process; ++thread) {
        threads.emplace_back([&, rank = process * replicas_a_process + thread] {
          try {
            const auto group = comm::make_host_group(
                {.rank = rank, .size = replicas, .key = key, .limits = within(std::chrono::seconds(60))});
            play(rank, *group, [&](Replica& replica, StrategyType& strategy) { work(replica, strategy, voice); });
          } catch (const std::exception& error) {
            voice.say(error.what());
          }
        });
      }
    });
  }
};

using AsynchronousWorld = ServedWorld<Asynchronous, AsynchronousOptions>;
using SyncWorld = ServedWorld<SyncReplicas, SyncReplicasOptions>;

inline std::vector<std::string> run_on_threads(const AsynchronousWorld& world, const AsynchronousWorld::Work& work) {
  return world.on_threads(work);
}
inline shm::ProcessWorld run_as_processes(const AsynchronousWorld& world, const AsynchronousWorld::ProcessWork& work) {
  return world.as_processes(work);
}
inline std::vector<std::string> run_synchronous(const SyncWorld& world, const SyncWorld::Work& work) {
  return world.on_threads(work);
}

/// A loss that is linear in its parameters: the gradient of shard k is 2^k everywhere, whatever the values are.
struct Linear : torch::nn::Module {
  explicit Linear(std::int64_t count = 8) { values = register_parameter("values", torch::zeros({count})); }
  torch::Tensor loss(int shard) { return values.sum() * std::exp2(shard); }
  torch::Tensor values;
};

/// The same with a table beside it, whose gradients are sparse.
struct LinearAndTable : Linear {
  LinearAndTable() {
    table = register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(5, 2).sparse(true)));
    const torch::NoGradGuard no_grad;
    table->weight.zero_();
  }
  torch::nn::Embedding table{nullptr};
};

inline BuildModule build_linear() {
  return [](int) { return std::make_shared<Linear>(); };
}

inline torch::Tensor linear_values(Replica& replica) {
  return dynamic_cast<Linear&>(replica.module()).values.detach().clone();
}
inline void expect_all(const torch::Tensor& values, double expected) {
  EXPECT_TRUE(torch::allclose(values, torch::full_like(values, expected))) << values << " instead of " << expected;
}
inline Limits in_a_minute() { return within(std::chrono::seconds(60)); }

/// One step of the replica's shards, each with weight 1.
inline StepReport step_linear(Replica& replica, Strategy& strategy,
                              const Limits& limits = within(std::chrono::seconds(60))) {
  for (int shard = replica.placement().mine.begin; shard < replica.placement().mine.end; ++shard) {
    strategy.open(shard);
    dynamic_cast<Linear&>(replica.module()).loss(shard).backward();
    strategy.close(1, 0.0);
  }
  return strategy.step(1.0, limits);
}

/// One step of the replica's shards, each with weight 1, with sparse gradients of a LinearAndTable besides.
inline StepReport step_linear_and_table(Replica& replica, Strategy& strategy) {
  auto& net = dynamic_cast<LinearAndTable&>(replica.module());
  for (int shard = replica.placement().mine.begin; shard < replica.placement().mine.end; ++shard) {
    strategy.open(shard);
    (net.loss(shard) + net.table(torch::tensor({shard % 4, 4})).square().sum() + net.table(torch::tensor({4})).sum())
        .backward();
    strategy.close(1, 0.0);
  }
  return strategy.step(1.0, in_a_minute());
}

/// Lets threads act in a given order: each entry is the thread whose turn it is.
class Script {
 public:
  explicit Script(std::vector<int> order) : order_(std::move(order)) {}

  /// All turns of `who`, each when it comes.
  void play(int who, const std::function<void()>& act) {
    for (std::size_t turn = 0; turn < order_.size(); ++turn) {
      if (order_[turn] != who) continue;
      {
        const MutexLock lock(mutex_);
        const auto is_due = [&]() TANDEM_REQUIRES(mutex_) { return next_ == turn; };
        if (!changed_.wait(mutex_, Deadline::after(std::chrono::seconds(60)), is_due))
          throw std::runtime_error("the script does not go on");
      }
      act();
      {
        const MutexLock lock(mutex_);
        ++next_;
      }
      changed_.notify_all();
    }
  }

 private:
  const std::vector<int> order_;
  Mutex mutex_;
  CondVar changed_;
  std::size_t next_ TANDEM_GUARDED_BY(mutex_) = 0;
};

}  // namespace tandem::sync
