// rl/algo/impala/impala_seats.h: what a run of IMPALA or APPO samples and learns. ImpalaRun decides when, on which
// thread and from which batch.
//
// A seat is one policy of the run with its learner (impala_learner.h) and its results. Environments with one agent have
// one seat. Environments with several agents have a seat for each policy of the policy map; the seats' learners derive
// their random streams from the run's seed and their place in the map, and step one after the other. A policy that is
// not trained has a seat without a learner.
//
// A batch is num_envs / workers x rollout_steps environment steps. It goes through three kinds of memory, all made
// once and known by numbers: a rollout worker collects it into a slot of the queue, a loader copies it into a buffer
// beside the learner, and after the step its results go to the run's owner in a telling. Whoever holds the lease of a
// number has its memory alone.
//
// Where observations or rewards are normalised, each policy has normalisers of its own. The moments of a batch count,
// once the learner has it, for fragments that begin after the weights are published.
//
// What depends on the number of agents:
// - One agent: a batch has whole fragments, and each shard's groups may take turns in splits (alternating_rollout.h).
// - Several agents: a batch has the decisions of each trained policy (decision_log.h). How many there are depends on
//   the environment; a policy that made none, on no rank, makes no step from that batch.
//
// Threads: collect() belongs to each rollout worker's thread, load_batch() to each loader's, step(), renew_targets()
// and exchange() to the learner's; inline they are all the owner's. spec(), replicas() and shards() may be called from
// any. episodes(), account() and add_to() are the owner's at any time. All others, and publish() before the workers
// begin, are the owner's while the other threads rest. Blocking: step(), exchange(), the hashes, save() and load() are
// collective and wait for other replicas and ranks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tandem/pipeline/published.h"
#include "tandem/rl/algo/impala/impala_learner.h"
#include "tandem/rl/algo/impala/trajectory.h"
#include "tandem/rl/algo/run_parts.h"
#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/rollout/alternating_rollout.h"
#include "tandem/rl/rollout/group_results.h"
#include "tandem/rl/rollout/multi_agent_worker.h"

namespace tandem::rl {

/// The weights and normalizers that a batch is collected with.
/// Weights and normalizers are published together, since a policy is only right with the observations that it was
/// trained on.
struct Behaviour {
  std::vector<Weights> weights;          // of the trained policies
  std::vector<Normalizers> normalizers;  // by policy
};

/// A slot of the queue between rollout workers and loaders: memory that is made once, into which environments and
/// policies write. Whoever holds the slot's lease has it alone. Either parts or decisions are used.
struct QueuedBatch {
  std::vector<Fragment> parts;  // of one agent, by env group of the worker: this rank's shards, of each its splits
  std::vector<std::vector<std::unique_ptr<DecisionFragment>>> decisions;  // by shard of this rank, by trained policy
  std::vector<double> results;  // of the groups, as append_results() writes them
};

/// A worker's env groups on this rank, of environments with one agent or with several.
/// Exactly one of the two is used.
struct SampledEnvs {
  std::unique_ptr<AlternatingRollout> of_one;
  std::vector<std::unique_ptr<MultiAgentWorker>> of_several;  // where of_one is null
};

/// One rollout worker: its env groups and its copies of the policies. Before each batch the trained policies take the
/// learners' newest weights, with the normalizers that belong to them. Single-thread, the rollout worker's;
/// constructed, saved and loaded by others while the worker rests. The groups' actors hold references to the sampler's
/// policies, so the policies come before the groups and outlive them.
class ImpalaSampler {
 public:
  /// `policies`: on the CPU, by policy; the groups' actors act with them. `trained`: by policy, whether it takes
  /// weights. `normalizers`: of the run, by policy, for their memory.
  ImpalaSampler(std::vector<std::shared_ptr<ActorCritic>> policies, const std::vector<bool>& trained, SampledEnvs envs,
                std::vector<Normalizers> normalizers);

  /// Memory for a batch.
  [[nodiscard]] QueuedBatch make_slot() const;
  /// Collects a batch with the newest behaviour, and returns its version. `progress`: the share of the run's steps that
  /// batches before it make. Throws EnvError.
  std::int64_t collect(pipeline::Published<Behaviour>& newest, double progress, QueuedBatch& into);
  /// The next batch takes the newest behaviour, even if its version is that of the last batch.
  void forget() { version_ = -1; }

  [[nodiscard]] ActorCritic& policy(std::size_t policy) { return *policies_[policy]; }
  /// Saves and loads the groups, which are numbered from `first` in the run; see save_groups() and load_groups().
  void save(int first, learner::StateParts& parts) const;
  RolloutWorker::Resumed load(const learner::StateParts& parts, int first, std::uint64_t seed_of_new_episodes) const;

 private:
  const std::vector<std::shared_ptr<ActorCritic>> policies_;
  const SampledEnvs envs_;
  std::vector<Weights> weights_;  // of the trained policies, alive
  std::vector<Normalizers> normalizers_;
  // The version that the policies have now; -1 takes any. Copying is skipped when nothing newer was published.
  std::int64_t version_ = -1;
};

/// How much memory of each kind there is.
/// Numbers of things, not bytes. ImpalaRun's pools have as many leases.
struct ImpalaMemory {
  std::size_t slots = 1, buffers = 1, tellings = 1;
};

/// Has no locks of its own: leases and the pipeline's order keep threads apart.
class ImpalaSeats {
 public:
  /// `setup` outlives this. `patience`: how long a replica waits for the others. Throws ConfigError, also for a policy
  /// of several agents that remembers, and what the factories throw.
  ImpalaSeats(const ImpalaSetup& setup, const ImpalaMemory& memory, Clock::duration patience);

  [[nodiscard]] const Spec& spec() const { return spec_; }
  /// Episodes of the environments; with several agents, returns are summed over them.
  [[nodiscard]] const EpisodeWindow& episodes() const { return episodes_; }
  /// account() calls it for each of them from now on.
  void listen_to_episodes(std::function<void(const Episode&)> told) { episodes_.listen(std::move(told)); }
  /// Replicas of all ranks.
  [[nodiscard]] int replicas() const { return any_learner().replicas(); }
  /// Shards of this rank.
  [[nodiscard]] Range shards() const { return any_learner().shards(); }
  [[nodiscard]] std::string gradients_by() const;

  /// `worker` collects a batch with the newest weights. Returns their version. Throws EnvError.
  std::int64_t collect(int worker, double progress, std::size_t slot) {
    return samplers_[index_of(worker)]->collect(*behaviour_, progress, queued_[slot]);
  }
  /// Copies everything out of the slot, results included, so that the worker can have it back at once.
  void load_batch(std::size_t slot, std::size_t buffer);

  /// Every trained policy makes a step. Returns the seconds that this rank waited for other replicas.
  double step(std::size_t buffer, double lr_factor);
  /// APPO's targets take the policies' weights.
  void renew_targets();
  /// Exchanges the numbers of all shards and the results of new batches with all ranks after a step, or after a batch
  /// was dropped instead, and leaves them in the telling. Ranks make their steps together, each from a batch of its
  /// own, so one rank's batch may be new while another rank makes a further pass over its batch. Samples, normalisers
  /// and episodes count for the next step of all ranks. `new_samples`: environment steps of this rank's batch; 0: a
  /// pass over it was made before. Returns those of all ranks. Throws InvariantError when a message is too short, and
  /// what Ranks::gather() throws when a rank is lost.
  std::int64_t exchange(std::size_t buffer, std::int64_t new_samples, bool dropped, std::size_t telling);
  /// Copies of what workers act with at present: see TrainingRun::policies().
  [[nodiscard]] learner::StateParts policies();
  /// Workers act with the present weights and normalizers from their next fragment on.
  void publish(std::int64_t version);

  /// The workers' next fragments take the newest weights, even if the version is the one that they had last.
  void forget();
  /// Counts a telling's results.
  void account(std::size_t telling, bool dropped);
  /// Writes losses, episodes and policies of what was counted since the last call.
  void add_to(RunReport& report);

  /// With several agents, all policies are hashed, trained or not: the tensors of each under NAME/TENSOR.
  /// In hexadecimal. Runs with the same numbers have the same hash, so it serves to compare runs.
  [[nodiscard]] std::string params_sha256();
  [[nodiscard]] std::string state_sha256();
  /// Work of each replica of the run, summed over policies.
  [[nodiscard]] std::vector<learner::ReplicaTeam::Work> work() const;

  /// Passes over batches that the first trained policy made.
  [[nodiscard]] std::uint64_t passes() const { return any_learner().team().member(0).learner.passes(); }
  /// Appends this rank's share of all ranks' parts: one for every shard and every env group. For one agent also
  /// "state", "normalizers" and, with APPO, "target". For several, of each policy "policy-NAME" (the model, and its
  /// optimizer where it is trained), "progress-NAME", where something is normalised "normalizers-NAME" and, with APPO
  /// where it is trained, "target-NAME".
  void save(learner::StateParts& parts);
  /// The names of all ranks' parts, "run" included, which is ImpalaRun's.
  [[nodiscard]] std::vector<std::string> part_names() const {
    const ImpalaOptions& impala = setup_.impala;
    return part_names_of(setup_, map_, setup_.appo.has_value(), impala.workers * setup_.shards * impala.splits);
  }
  /// Values of the part "run", and the seed of new episodes where old ones cannot go on.
  struct Before {
    const model::NamedTensors& run;
    std::int64_t passes = 0, episodes = 0;
    std::uint64_t seed_of_new_episodes = 0;
  };
  RolloutWorker::Resumed load(const learner::StateParts& parts, const Before& before);
  /// Throws OutdatedCheckpoint for the first env group of a checkpoint of one agent whose groups an earlier build
  /// divided in another way. Call it once the shards are known to be as many as here.
  void check_first_group(const model::NamedTensors& first_group) const;

 private:
  struct Seat {
    // Null when the policy is not trained.
    std::unique_ptr<ImpalaLearner> learner;
    // The policy when it is not trained, else null.
    std::shared_ptr<ActorCritic> frozen;
    EpisodeWindow episodes;  // of the policy's agents, where there are several
    LearnReport sums;        // since the last report
    // Decisions of several agents since the last report.
    std::int64_t decisions = 0;
    // The norm of the last step. It belongs to the learner thread while that runs.
    double grad_norm = 0;

    [[nodiscard]] const ActorCritic& policy() const { return learner ? learner->policy() : *frozen; }
  };
  // A batch beside the learner.
  struct Loaded {
    std::vector<std::vector<Trajectory>> trajectories;  // by policy, by shard of this rank; none of the untrained
    std::vector<std::vector<learner::Batch>> batches;   // views of them
    std::vector<double> results;                        // as those of the queued batch
  };
  // Results of one batch on their way to the owner.
  struct Telling {
    GroupResults results;                // with one agent, episodes of the environments alone
    std::vector<ImpalaNumbers> numbers;  // by policy; without rows where it made no step
    std::vector<double> grad_norms;      // by policy
  };

  // For containers, whose indices are unsigned; numbers of workers and shards are int.
  static std::size_t index_of(int number) { return static_cast<std::size_t>(number); }
  [[nodiscard]] bool has_agents() const { return setup_.agents.has_value(); }
  [[nodiscard]] ImpalaLearner& any_learner() const;
  void build_seats(Clock::duration patience);
  void build_sampler(int worker);
  [[nodiscard]] SampledEnvs build_envs(std::span<const std::shared_ptr<ActorCritic>> policies, int worker) const;
  void build_memory(const ImpalaMemory& memory);
  // The run's env groups are numbered by worker, shard and split; a worker's groups on this rank are consecutive.
  [[nodiscard]] Range group_numbers(int worker) const {
    const int first = worker * setup_.shards, splits = setup_.impala.splits;
    return {(first + shards().begin) * splits, (first + shards().end) * splits};
  }
  double count_decisions(const Loaded& loaded);
  [[nodiscard]] std::vector<PolicyState> policy_states();

  const ImpalaSetup& setup_;
  // Describes the environments as a whole.
  Spec spec_;
  const PolicyMap map_;  // of one agent, its policy without a name
  // These wait for each other as long as the replicas do.
  const learner::Ranks ranks_;
  std::vector<Normalizers> normalizers_;  // by policy; the learner thread's, while it runs
  EpisodeWindow episodes_;
  std::vector<PolicyReport> reports_;                     // the last reports, whose memory the next ones use
  std::vector<Seat> seats_;                               // by policy
  std::vector<std::unique_ptr<ImpalaSampler>> samplers_;  // by worker
  std::vector<QueuedBatch> queued_;                       // by slot
  std::vector<Loaded> buffers_;
  std::vector<Telling> tellings_;
  std::unique_ptr<pipeline::Published<Behaviour>> behaviour_;
  // The learner thread's, while it runs.
  // Memory that each step uses again.
  std::vector<double> mine_;                             // what this rank tells the others
  std::vector<std::vector<double>> all_;                 // by rank
  std::vector<std::span<const ImpalaNumbers>> learned_;  // of the last step, by policy
  std::vector<std::vector<ImpalaNumbers>> shards_;       // of all ranks, by policy
  std::vector<NormalizerMoments> moments_;               // by policy
};

}  // namespace tandem::rl
