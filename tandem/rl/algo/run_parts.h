// rl/algo/run_parts.h: the steps that runs of all algorithms share: which policies there are, how these are made,
// seated in env groups and named in checkpoints, and how runs hash, report and write checkpoints.
//
// Threads: all.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/clock.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/stall_watch.h"
#include "tandem/learner/replica_team.h"
#include "tandem/model/state_hash.h"
#include "tandem/rl/algo/run_setup.h"
#include "tandem/rl/algo/training_run.h"
#include "tandem/rl/rollout/episodes.h"
#include "tandem/rl/rollout/multi_agent_worker.h"

namespace tandem::rl {

/// The policies of the run. With one agent there is one, which has no name and is trained. Writes to `whole` what the
/// environments are like as a whole. Throws ConfigError for environments with several agents in a setup of one.
[[nodiscard]] PolicyMap map_of(const RunSetup& setup, Spec& whole);

/// A policy's normalisers each, without any moments, and memory for the moments of one env group.
/// Throws ConfigError when observations are to be normalised and a policy sees others than floats.
[[nodiscard]] std::vector<Normalizers> normalizers_of(const RunSetup& setup, const PolicyMap& map);
[[nodiscard]] std::vector<NormalizerMoments> moments_of(const RunSetup& setup, const PolicyMap& map);

/// The seed that a policy derives its own streams from. `policy`: its place in the map. Policies of several agents so
/// draw from different streams, and a policy keeps its stream when others change.
[[nodiscard]] std::uint64_t seed_of(const RunSetup& setup, std::size_t policy);

/// Returns a new module on the CPU, with the same parameters each time; one that is not trained is in evaluation mode.
[[nodiscard]] std::shared_ptr<ActorCritic> build_policy(const RunSetup& setup, const PolicyMap& map,
                                                        std::size_t policy);

/// All policies in env group `group` of the run, which has `envs` environments. `policies`: by place, and alive as long
/// as the seats.
/// The actors refer to the policies. Each seat's actor draws from a stream of (run, policy, group), so a group samples
/// the same wherever it runs.
[[nodiscard]] std::vector<PolicySeat> policy_seats(const RunSetup& setup, const PolicyMap& map,
                                                   std::span<const std::shared_ptr<ActorCritic>> policies, int envs,
                                                   int group);

/// The name of the threads that learn a policy: those have 15 characters, and the last are the replica's number.
[[nodiscard]] std::string threads_of_policy(const std::string& name);

/// Names of what a policy has in checkpoints and hashes. Those of one agent's policy, which has no name, are as old as
/// runs that knew no seats.
/// The names must stay as they are: checkpoints of earlier builds have them.
struct PolicyNames {
  explicit PolicyNames(const std::string& policy);

  bool one_agent;
  std::string part, progress, target;  // parts: model and optimizer; counters and episodes; APPO's target
  std::string generator;               // the policy's random stream among those of a shard
  std::string normalizers;             // a part: statistics of what its agents see and earn
  // Of the tensors that are hashed.
  std::string prefix, target_prefix, normalizer_prefix;
};

/// Returns the options of a learner: Adam, and means over all rows, clipped to max_grad_norm. `options`: of the
/// algorithm.
/// The divisor is the number of all rows, so the step is that of the mean loss whatever shard a row lies in.
template <typename Options>
[[nodiscard]] learner::TeamOptions team_options_of(const RunSetup& setup, const Options& options, std::uint64_t seed,
                                                   Clock::duration patience) {
  return {.run_seed = seed,
          .rng = setup.rng,
          .optimizer = {model::AdamOptions{.lr = options.learning_rate, .eps = options.adam_eps}},
          .flat = {},
          .strategy = sync::with_mean(setup.strategy, {.max_grad_norm = options.max_grad_norm,
                                                       .divisor = sync::Divisor::kTotal,
                                                       .check = setup.gradient_check}),
          .cuda_kernels = setup.cuda_kernels,
          .patience = patience};
}

/// Whether it is a RecurrentActorCritic.
[[nodiscard]] bool remembers(const ActorCritic& policy);
/// Throws ConfigError when the options speak of sequences and no policy remembers, or the other way round.
void require_sequences_for(bool any_remembers, bool has_sequences);

/// Writes what the window tells into the report, a RunReport or a PolicyReport.
template <typename Report>
void report_episodes(const EpisodeWindow& episodes, Report& report) {
  report.episode_return_mean = episodes.mean_return();
  report.episode_length_mean = episodes.mean_length();
  report.episodes = episodes.total();
}

/// Appends the means of the environments' own metrics to the report, all of them, known or not, so that each line of
/// metrics has the same names. `spec`: of the environments as a whole.
void report_metrics(const Spec& spec, const EpisodeWindow& episodes, RunReport& report);

/// Names of checkpoint parts. Shards and groups are numbered over the run, so that any topology finds them.
[[nodiscard]] std::string shard_part(int shard);
[[nodiscard]] std::string group_part(int group);
/// Whether checkpoints have the policies' normalisers. Those of one agent always do, even where nothing is normalised.
[[nodiscard]] bool keeps_normalizers(const RunSetup& setup);
/// The names of all parts of a run with these policies. They do not depend on replicas and ranks, so that a checkpoint
/// loads on any topology; the leader reads them for all. `has_targets`: of policies that are trained.
[[nodiscard]] std::vector<std::string> part_names_of(const RunSetup& setup, const PolicyMap& map, bool has_targets,
                                                     int groups);
/// Checkpoints hold tensors only, so states that are bytes travel as uint8 tensors. Copies the bytes.
[[nodiscard]] at::Tensor tensor_of(const std::vector<std::byte>& bytes);
/// Views the bytes of a contiguous tensor, which outlives the result.
[[nodiscard]] std::span<const std::byte> bytes_of(const at::Tensor& tensor);

/// The tensor of a part by its name. Throws CheckpointError when there is none.
[[nodiscard]] const at::Tensor& find(const model::NamedTensors& tensors, const std::string& name,
                                     const std::string& part);

/// The part "run": counters, and the episodes of the window with their metrics, which are those of the environments'
/// spec; episodes of agents have none.
[[nodiscard]] model::NamedTensors run_part_of(const std::vector<std::int64_t>& counters, const EpisodeWindow& episodes,
                                              const std::vector<Metric>& metrics = {});
/// Its counters. Throws CheckpointError when there are not `count`.
[[nodiscard]] std::vector<std::int64_t> counters_of(const model::NamedTensors& run, std::size_t count);
/// `total`: episodes that ever ended, those that the window has forgotten included. Metrics are found by their names;
/// one that the environments did not have then is not known of those episodes. Throws CheckpointError when the tensors
/// do not fit each other.
void restore_episodes(const model::NamedTensors& run, std::int64_t total, EpisodeWindow& episodes,
                      const std::vector<Metric>& metrics = {});

/// Appends the parts of env groups that are numbered from `first`, of RolloutWorker or MultiAgentWorker.
template <typename Groups>
void save_groups(const Groups& groups, int first, learner::StateParts& parts) {
  for (const auto& group : groups)
    parts.emplace_back(group_part(first++), model::NamedTensors{{"state", tensor_of(group->save())}});
}
/// Loads what save_groups() wrote. Returns the last word of theirs.
template <typename Groups>
[[nodiscard]] RolloutWorker::Resumed load_groups(const learner::StateParts& parts, const Groups& groups, int first,
                                                 std::uint64_t seed_of_new_episodes) {
  RolloutWorker::Resumed resumed = RolloutWorker::Resumed::kExactly;
  for (const auto& group : groups) {
    const std::string name = group_part(first++);
    const at::Tensor bytes = find(learner::part_of(parts, name), "state", name).contiguous();
    resumed = std::max(resumed, group->load(bytes_of(bytes), seed_of_new_episodes));
  }
  return resumed;
}

/// The longest that one step of an env group may last, and the key of the option that sets it, for the message.
struct StepLimit {
  std::string key;
  std::chrono::seconds limit;
};
/// Watches whether an env group has been inside one step for too long: the team looks while it waits for its replicas,
/// and then ends its run with a sentence that names the group. Groups are numbered from `first` in the run and have
/// `envs` environments of `env` each. `workers`: pointers to anything with a mark(). The workers outlive the watch, and
/// the watch outlives the team's last run.
template <typename Workers>
[[nodiscard]] std::unique_ptr<StallWatch> watch_groups(learner::ReplicaTeam& team, const Workers& workers,
                                                       const std::string& env, int first, int envs,
                                                       const StepLimit& step) {
  std::vector<StallWatch::Watched> groups;
  for (const auto& worker : workers)
    groups.push_back({&worker->mark(), name_of_group(env, first + static_cast<int>(groups.size()), envs), step.limit});
  auto watch = std::make_unique<StallWatch>(std::move(groups));
  const auto look = [&watched = *watch, key = step.key] {
    const std::string late = watched.look();
    if (late.empty()) return late;
    return concat("in one step: ", late, " (", key, "). An environment may hang, or be slower than that");
  };
  team.set_watch([&watched = *watch] { return watched.next_look(); }, look,
                 std::min(step.limit, std::chrono::seconds(60)));
  return watch;
}

/// The last word of all ranks. Collective.
[[nodiscard]] RolloutWorker::Resumed agreed(const learner::Ranks& ranks, RolloutWorker::Resumed mine);

/// A policy of the run as hashes and checkpoints see it. References the run's own objects.
struct PolicyState {
  PolicyNames names;
  // Null when the policy is not trained: `module` then has all of its state.
  learner::ReplicaTeam* team;
  const ActorCritic& module;
  EpisodeWindow& episodes;   // of its agents, where there are several
  Normalizers* normalizers;  // null where checkpoints have none

  /// Passes that its learners made.
  [[nodiscard]] std::int64_t passes() const;
  /// Collective where the policy is trained.
  [[nodiscard]] model::NamedTensors tensors() const;
  /// The normalisers' moments; none where there are no normalisers.
  [[nodiscard]] model::NamedTensors moments() const {
    return normalizers != nullptr ? normalizers->state() : model::NamedTensors();
  }
};

/// TrainingRun::params_sha256() of a run with these policies.
[[nodiscard]] std::string params_sha256_of(const std::vector<PolicyState>& policies);
/// Appends tensors to `all` with the prefix before their names.
void append(const std::string& prefix, const model::NamedTensors& tensors, model::NamedTensors& all);

/// Appends the policies' share of a checkpoint: on the leader each policy's tensors, its normalisers and, with several
/// agents, its progress; on every rank the policies' random streams of the shards `mine`. Collective.
void save_policies(const std::vector<PolicyState>& policies, const learner::Ranks& ranks, Range mine,
                   learner::StateParts& parts);
/// Copies of tensors on the CPU, under their names.
[[nodiscard]] model::NamedTensors copies_of(const model::NamedTensors& tensors);

/// Loads what save_policies() wrote of one policy. `passes`: those of the one policy that has no progress of its own.
void load_policy(const PolicyState& policy, std::int64_t passes, Range mine, const learner::StateParts& parts);

/// Adds the work for one policy, by replica, to that for the others.
void add_work(const std::vector<learner::ReplicaTeam::Work>& its, std::vector<learner::ReplicaTeam::Work>& all);
/// Returns the means over the policies that are trained, and the sums of their times.
/// Policies that made no step of the update have no part. NaN when none made one.
[[nodiscard]] LearnReport mean_of(const std::vector<PolicyReport>& policies);
/// Adds a policy's sentence to the text of TrainingRun::gradients_by(): the first one, and of others only what differs.
void append_gradients(const std::string& policy, const std::string& sentence, std::string& text);

}  // namespace tandem::rl
