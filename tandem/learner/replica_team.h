// learner/replica_team.h: the replicas of this process, each on a thread of its own, together with those of the other
// ranks.
//
// A program gives a function that builds the model and hands in what every replica should do; it runs on all replicas'
// threads at once and the call returns when all have finished:
//
//     ReplicaTeam team(place_replicas(devices, shards), groups, build);
//     team.run([&](Member& member) { ... member.learner.step(...) ... });
//
// Threads: run() from one thread at a time. Blocking: run() returns when every replica's function has; when one throws,
// the group is aborted, so that the others' waits end too, on all ranks, and run() throws the first failure. The team
// is then of no further use.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "tandem/comm/group_shard_sum.h"
#include "tandem/concurrency/thread_team.h"
#include "tandem/device/cuda_kernels.h"
#include "tandem/learner/learner.h"
#include "tandem/learner/ranks.h"
#include "tandem/sync/strategies.h"

namespace tandem::learner {

/// The objects that a replica's thread works with. The references are valid as long as the team.
struct Member {
  sync::Replica& replica;
  sync::Strategy& strategy;
  Learner& learner;
  comm::GroupShardSum& shard_sum;
  comm::Group& group;    // all replicas of the run
  std::stop_token lost;  // see Ranks::lost(): for waits that the group's end does not end
};

/// Ranks give the same options wherever these decide numbers, because their replicas make the same steps.
struct TeamOptions {
  std::uint64_t run_seed = 0;
  model::RngOrder rng = model::RngOrder::kShards;
  std::vector<model::OptimizerOptions> optimizer{};  // one, or one a parameter group
  model::FlatParameters::Options flat{};
  sync::StrategyOptions strategy{};
  Residence residence = Residence::kDevice;                                // of the learners' batches
  device::CudaKernels cuda_kernels = device::CudaKernels::kDeterministic;  // when replicas are on CUDA devices
  Clock::duration patience = std::chrono::minutes(5);                      // how long a replica waits for the others
  std::string threads = "replica";  // name of the threads, in a profile say, before the replica's number
};

struct ReplicaGradients {
  sync::GradientTotals totals;  // since its team was made, or its state loaded
  double waited_seconds = 0;    // for other replicas and for their gradients, in steps that its Learner made
};

/// Counts for metrics and for people. Only sync_replicas and asynchronous, which may drop or delay gradients, keep
/// them. Every rank gets the same report; see ReplicaTeam::take_gradients().
struct GradientReport {
  std::vector<ReplicaGradients> replicas;  // of the run, in order
  sync::StepSizes sizes;                   // of the steps since the report before
};

/// A table with a row a replica, and a line about the steps of `all`. Ends with a line break.
[[nodiscard]] std::string table_of(const std::vector<ReplicaGradients>& replicas, const sync::StepSizes& all);

/// A team has one thread for each replica of this process. Each replica has a Member, which only that thread may use
/// while a run is under way. All functions of the team are called from one thread, its owner's.
class ReplicaTeam {
 public:
  /// Builds a module for each replica, on its thread; the team moves it to the replica's device. Modules must be built
  /// alike; they may start from different values, since replica 0's are broadcast.
  using BuildModule = std::function<std::shared_ptr<torch::nn::Module>(const sync::Placement&)>;

  /// Builds all replicas and makes them equal, those of all ranks. Throws what building throws, and ConfigError when
  /// the models differ. `placements`: this rank's.
  ReplicaTeam(const std::vector<sync::Placement>& placements, const TeamOptions& options, const BuildModule& build,
              const Ranks& ranks = {});
  /// Joins the threads, which must be idle.
  ~ReplicaTeam();

  /// Calls `task` on the threads of all replicas. A replica that has done its task rests (Strategy::rest()) until the
  /// others have, as it does in Member::shard_sum. A task that waits for all replicas in another way has to call rest()
  /// before. Throws the failure to report, as ThreadTeam::run() does; the waits of all ranks have then been ended, and
  /// the team is of no further use.
  template <typename Task>
  void run(const Task& task) {
    run_on_all(std::cref(task));  // by reference, so that nothing is copied
  }

  /// Ends runs in which something hangs: see ThreadTeam::Watch, whose end() aborts the group, on all ranks. `grace`:
  /// for the replicas to come back after that. The team is then of no further use.
  void set_watch(std::function<Deadline()> next_look, std::function<std::string()> look, Clock::duration grace);

  /// Replicas of this process.
  [[nodiscard]] int size() const { return static_cast<int>(members_.size()); }
  /// Member `local` (of this process), for the caller's thread while no run() is under way. Numbers count from 0 in the
  /// order of `placements`.
  [[nodiscard]] Member member(int local);
  /// Learner::set_passes() of all; between runs.
  void set_passes(std::uint64_t passes);
  /// The whole state of the model and its optimizer; see Strategy::whole_state(). Collective: all ranks ask. Between
  /// runs.
  [[nodiscard]] model::NamedTensors state();
  /// Takes what state() gave, of any team with the same model. Every rank calls it. Throws as
  /// Strategy::load_whole_state().
  void load_state(const model::NamedTensors& state);

  /// For each replica of the run: rows learned from so far, every pass counted, seconds of CPU used in run(), and
  /// counts of its gradients. Rows and gradients count in steps that Member::learner made, not in those of the strategy
  /// alone. Collective: all ranks ask, and wait within the ranks' patience.
  struct Work {
    std::int64_t rows = 0;
    double cpu_seconds = 0;
    sync::StalenessTotals staleness{};
  };
  [[nodiscard]] std::vector<Work> work() const;
  /// Counts of the gradients under sync_replicas and asynchronous; nothing under other strategies. Collective, as
  /// work(); between runs.
  [[nodiscard]] std::optional<GradientReport> take_gradients();
  [[nodiscard]] const Ranks& ranks() const { return ranks_; }

 private:
  // The objects of one replica, which its Member refers to.
  struct Seat;
  // Builds one replica on its own thread.
  void take_seat(const sync::Placement& placement, const BuildModule& build);
  // Ends the waits of all replicas of the run on behalf of replica `local`.
  void abort(int local, const std::string& why);
  // It adds the processor time of each thread to its seat, and rests after the work.
  void run_on_all(const std::function<void(Member&)>& work);
  // The patience from now on, and the loss of a rank.
  [[nodiscard]] Limits limits() const { return {.deadline = Deadline::after(options_.patience), .stop = lost_}; }

  const TeamOptions options_;
  const Ranks ranks_;
  const std::stop_token lost_;  // ends all waits
  std::vector<std::unique_ptr<comm::Group>> groups_;
  const std::vector<std::vector<int>> nodes_;  // cores of each replica's NUMA node; empty where nobody is bound
  std::vector<std::unique_ptr<Seat>> members_;
  ThreadTeam threads_;  // last: joined before what its threads use is gone
};

}  // namespace tandem::learner
