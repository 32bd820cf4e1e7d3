// learner/replica_team.h: the replicas of this process, each on a thread of its own.
//
// A program gives a function that builds the model and hands in what every replica should do; it runs on all replicas'
// threads at once and the call returns when all have finished:
//
//     ReplicaTeam team(place_replicas(devices, shards), groups, build);
//     team.run([&](Member& member) { ... member.learner.step(...) ... });
//
// Threads: run() from one thread at a time. Blocking: run() returns when every replica's function has; when one throws,
// the group is aborted, so that the others' waits end too, and run() throws the first failure. The team is then of no
// further use.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tandem/comm/group_shard_sum.h"
#include "tandem/concurrency/thread_team.h"
#include "tandem/learner/learner.h"
#include "tandem/sync/replicated.h"

namespace tandem::learner {

/// What a replica's thread works with.
struct Member {
  sync::Replica& replica;
  sync::Strategy& strategy;
  Learner& learner;
  ShardSum& shard_sum;
  comm::Group& group;
};

struct TeamOptions {
  std::uint64_t run_seed = 0;
  model::RngOrder rng = model::RngOrder::kShards;
  std::vector<model::OptimizerOptions> optimizer{};  // one, or one a parameter group
  model::FlatParameters::Options flat{};
  sync::ReplicatedOptions replicated{};
  Residence residence = Residence::kDevice;            // of the learners' batches
  Clock::duration patience = std::chrono::minutes(5);  // how long a replica waits for the others
};

class ReplicaTeam {
 public:
  /// Builds a module for each replica, on its thread. Modules must be built alike; they may start from different
  /// values, since replica 0's are broadcast.
  using BuildModule = std::function<std::shared_ptr<torch::nn::Module>(const sync::Placement&)>;

  /// Builds all replicas and makes them equal. Throws what building throws, and ConfigError when the models differ.
  ReplicaTeam(const std::vector<sync::Placement>& placements, const TeamOptions& options, const BuildModule& build);
  ~ReplicaTeam();

  void run(const std::function<void(Member&)>& work);

  [[nodiscard]] int size() const { return static_cast<int>(members_.size()); }
  /// Member `replica`, for the caller's thread while no run() is under way.
  [[nodiscard]] Member member(int replica);
  /// Seconds of CPU that replica's thread has used in run().
  [[nodiscard]] double cpu_seconds(int replica) const;

 private:
  struct Seat;
  void guarded(int replica, const std::function<void()>& work);

  const TeamOptions options_;
  std::vector<std::unique_ptr<comm::Group>> groups_;
  std::vector<std::unique_ptr<Seat>> members_;
  ThreadTeam threads_;  // last: joined before what its threads use is gone
};

}  // namespace tandem::learner
