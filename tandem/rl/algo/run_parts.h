// rl/algo/run_parts.h: the steps that runs of all algorithms share: how they hash, report and write checkpoints.
//
// Threads: all.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/clock.h"
#include "tandem/learner/replica_team.h"
#include "tandem/model/state_hash.h"
#include "tandem/rl/algo/ppo/ppo_options.h"
#include "tandem/rl/algo/training_run.h"
#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/policy/policy.h"
#include "tandem/rl/rollout/episodes.h"
#include "tandem/rl/rollout/step_watch.h"

namespace tandem::rl {

/// Returns the options of a learner: Adam, and means over all rows, clipped to max_grad_norm. `options`: of the
/// algorithm.
/// The divisor is the number of all rows, so the step is that of the mean loss whatever shard a row lies in.
template <typename Setup, typename Options>
[[nodiscard]] learner::TeamOptions team_options_of(const Setup& setup, const Options& options, std::uint64_t seed,
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

/// How long a replica waits for the others in one step: longer than a step of an env group may hang on one of them.
[[nodiscard]] inline Clock::duration patience_of(const PpoOptions& ppo) {
  return std::max<Clock::duration>(std::chrono::minutes(5), 2 * std::chrono::seconds(ppo.stall_timeout));
}

/// Throws ConfigError when the options speak of sequences and the policy remembers nothing, or the other way round.
/// Only RecurrentActorCritic counts as remembering.
void require_sequences_for(const ActorCritic& policy, bool has_sequences);

/// Watches the steps of the env groups that the team's replicas make: of those numbered from `first`, each of `envs`
/// environments; `workers` have the marks. The watch must outlive the team's last run.
template <typename Workers>
[[nodiscard]] std::unique_ptr<StepWatch> watch_steps(learner::ReplicaTeam& team, const Workers& workers,
                                                     const std::string& env, int first, int envs,
                                                     const PpoOptions& ppo) {
  std::vector<StepWatch::Group> groups;
  for (const auto& worker : workers)
    groups.push_back({&worker->mark(), name_of_group(env, first + static_cast<int>(groups.size()), envs)});
  const std::chrono::seconds limit(ppo.stall_timeout);
  auto watch = std::make_unique<StepWatch>(std::move(groups), limit, "ppo.stall_timeout");
  team.set_watch([its = watch.get()] { return its->next_look(); }, [its = watch.get()] { return its->look(); },
                 std::min(limit, std::chrono::seconds(60)));
  return watch;
}

/// TrainingRun::params_sha256() of the run whose policy this is.
[[nodiscard]] std::string params_sha256_of(const torch::nn::Module& policy);
/// TrainingRun::state_sha256(); `more`: what the algorithm has besides. Collective, as ReplicaTeam::state().
[[nodiscard]] std::string state_sha256_of(learner::ReplicaTeam& team, const Normalizers& normalizers,
                                          const model::NamedTensors& more = {});

/// Writes what the window tells into the report.
void report_episodes(const EpisodeWindow& episodes, RunReport& report);

/// Names of checkpoint parts. Shards and groups are numbered over the run, so that any topology finds them.
[[nodiscard]] std::string shard_part(int shard);
[[nodiscard]] std::string group_part(int group);
/// Appends the parts of env groups that are numbered from `first`, of RolloutWorker or MultiAgentWorker.
template <typename Groups>
void save_groups(const Groups& groups, int first, learner::StateParts& parts);
/// Loads what save_groups() wrote; kWithNewEpisodes when one of them could not go on.
template <typename Groups>
[[nodiscard]] RolloutWorker::Resumed load_groups(const learner::StateParts& parts, const Groups& groups, int first,
                                                 std::uint64_t seed_of_new_episodes);
/// Returns the part of a shard that has one random stream.
[[nodiscard]] model::NamedTensors stream_of(at::Generator& generator);
/// Sets it again. Throws CheckpointError when the part has none.
void load_stream(const model::NamedTensors& part, at::Generator& generator, int shard);

/// Checkpoints hold tensors only, so states that are bytes travel as uint8 tensors. Copies the bytes.
[[nodiscard]] at::Tensor tensor_of(const std::vector<std::byte>& bytes);
/// Views the bytes of a contiguous tensor, which outlives the result.
[[nodiscard]] std::span<const std::byte> bytes_of(const at::Tensor& tensor);

/// The tensor of a part by its name. Throws CheckpointError when there is none.
[[nodiscard]] const at::Tensor& find(const model::NamedTensors& tensors, const std::string& name,
                                     const std::string& part);

/// The part "run": counters, and the episodes of the window.
[[nodiscard]] model::NamedTensors run_part_of(const std::vector<std::int64_t>& counters, const EpisodeWindow& episodes);
/// Its counters. Throws CheckpointError when there are not `count`.
[[nodiscard]] std::vector<std::int64_t> counters_of(const model::NamedTensors& run, std::size_t count);
/// `total`: episodes that ever ended, those that the window has forgotten included.
void restore_episodes(const model::NamedTensors& run, std::int64_t total, EpisodeWindow& episodes);

template <typename Groups>
void save_groups(const Groups& groups, int first, learner::StateParts& parts) {
  for (const auto& group : groups)
    parts.emplace_back(group_part(first++), model::NamedTensors{{"state", tensor_of(group->save())}});
}

template <typename Groups>
RolloutWorker::Resumed load_groups(const learner::StateParts& parts, const Groups& groups, int first,
                                   std::uint64_t seed_of_new_episodes) {
  RolloutWorker::Resumed resumed = RolloutWorker::Resumed::kExactly;
  for (const auto& group : groups) {
    const std::string name = group_part(first++);
    const at::Tensor bytes = find(learner::part_of(parts, name), "state", name).contiguous();
    if (group->load(bytes_of(bytes), seed_of_new_episodes) != RolloutWorker::Resumed::kExactly)
      resumed = RolloutWorker::Resumed::kWithNewEpisodes;
  }
  return resumed;
}

}  // namespace tandem::rl
