// rl/rollout/group_worker.h: the sampling of one env group, whether its environments have one agent (RolloutWorker) or
// several (MultiAgentWorker). A run that samples and learns in turn has one for each shard.
//
// A seat is one policy in the group: the one policy of environments with one agent, or one of a policy map.
//
// Threads: single-thread, the replica's that owns the group; mark() from any. Blocking: sample() takes as long as the
// environments do.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/stall_watch.h"
#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/rollout/fragment.h"
#include "tandem/rl/rollout/observation_intake.h"
#include "tandem/rl/rollout/sequences.h"
#include "tandem/rl/rollout/time_limit.h"

namespace tandem::rl {

/// Fixed for the worker's life. `gamma` must be the one that advantages are computed with. With several agents it
/// discounts from decision to decision, however many steps of the environment lie between them, and sequences have
/// decisions in the place of steps.
struct RolloutOptions {
  // T, the steps of each environment in a fragment.
  int steps = 128;
  // The discount for the bootstrap of truncated episodes and for the returns that scale rewards.
  double gamma = 0.99;
  // The decay of compute_gae(). Workers of several agents compute advantages by themselves.
  double gae_lambda = 0.95;
  TimeLimit time_limit = TimeLimit::kBootstrap;
  // States are kept where these sequences begin, for policies that have states.
  SequenceOptions sequences = {};
  // Says which of observations and rewards are normalised.
  NormalizerOptions normalizer = {};
  // Takes what a group notices of observations (ObservationIntake); null where it is to say nothing.
  std::shared_ptr<Remarks> remarks = {};
};

/// The seeds of a group's episodes. They follow from the environment's number in the run, so groups of other sizes have
/// the same episodes.
[[nodiscard]] inline std::vector<std::uint64_t> seeds_of_envs(std::uint64_t run_seed, int first_env, int envs) {
  std::vector<std::uint64_t> seeds;
  for (int env = first_env; env < first_env + envs; ++env)
    seeds.push_back(derive_seed(run_seed, SeedPurpose::kEnvGroup, static_cast<std::uint64_t>(env)));
  return seeds;
}

class GroupWorker {
 public:
  // kExactly: the next fragment has the bits that it would have had without the interruption. The others began new
  // episodes: kAfterALoss, since the environments were lost while they were saved; kOfAnotherKind, since the group that
  // saved them restarted environments and this one does not, or the other way round; kWithNewEpisodes, since they can
  // never be saved. Of several groups the last of these words counts.
  enum class Resumed { kExactly, kAfterALoss, kOfAnotherKind, kWithNewEpisodes };

  GroupWorker() = default;
  GroupWorker(const GroupWorker&) = delete;
  GroupWorker& operator=(const GroupWorker&) = delete;
  virtual ~GroupWorker() = default;

  /// Starts new episodes, of which nothing is remembered, seeded from the run's seed and each environment's number in
  /// the run.
  virtual void reset(std::uint64_t run_seed) = 0;
  /// Makes the fragment of update `update`, counted from 0, in memory of the worker's own: steps all environments as
  /// often as the options say. `frozen`: by seat. Throws EnvError. Before the first call: reset() or load().
  virtual void sample(std::int64_t update, std::span<const Normalizers> frozen) = 0;
  /// Makes a fragment that may end early, step by step: begins it, makes one step at least and as many as the options
  /// say at most, ends it. The next fragment goes on where this one ended.
  virtual void begin_sample(std::span<const Normalizers> frozen) = 0;
  virtual void step_sample(std::span<const Normalizers> frozen) = 0;
  virtual void end_sample() = 0;
  /// A fragment of no steps: the environments stay where they are.
  virtual void rest() = 0;
  /// The share of the run's steps that are made, for the environments (EnvGroup::set_progress()).
  virtual void set_progress(double share) = 0;
  /// The fragment of a seat that learns, which sample() writes; the same object each time. With several agents its
  /// advantages are computed.
  [[nodiscard]] virtual Fragment& fragment(std::size_t seat) = 0;
  [[nodiscard]] virtual int envs() const = 0;
  /// Steps of each environment in the last fragment.
  [[nodiscard]] virtual int steps_made() const = 0;
  /// Environment steps of the last fragment that count: all, but where episodes are completed.
  [[nodiscard]] virtual int rows_made() const { return steps_made() * envs(); }
  /// Whether the group is inside a step.
  [[nodiscard]] const CallMark& mark() const { return mark_; }

  /// Appends what the run learns of the last fragment, as numbers that take_results() reads (group_results.h).
  /// Finished episodes are forgotten then.
  virtual void append_results(std::vector<double>& numbers) = 0;

  /// Environment states, current observations, running episodes and the actors' streams. Where the environment cannot
  /// save, its part is left out.
  [[nodiscard]] virtual std::vector<std::byte> save() const = 0;
  /// Goes on from there. Returns whether that is exact; where not, new episodes were started from
  /// `seed_for_new_episodes`. Throws CheckpointError on bytes that it cannot read.
  virtual Resumed load(std::span<const std::byte> state, std::uint64_t seed_for_new_episodes) = 0;

 protected:
  // Derived classes enter it around each call of the environments, and around nothing else.
  CallMark mark_;
};

/// "env group 1 (CartPole-v1, environments 4 to 7)", of equal groups of `envs`.
[[nodiscard]] inline std::string name_of_group(const std::string& env, int group, int envs) {
  const int first = group * envs;
  return concat("env group ", group, " (", env, ", environment", envs > 1 ? "s " : " ", first,
                envs > 1 ? concat(" to ", first + envs - 1) : "", ")");
}

}  // namespace tandem::rl
