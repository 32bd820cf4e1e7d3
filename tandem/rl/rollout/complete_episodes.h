// rl/rollout/complete_episodes.h: fragments of complete episodes, as RLlib's batch_mode of that name has them.
//
// All environments of the group begin an episode with the fragment, and each makes `steps` steps and then those that
// end the episode it is in. So fragments have different numbers of rows, nothing is estimated behind a fragment's end,
// and no episode is sampled by two policies. The price: an environment that is done goes on with the others of its
// group until the last of them is, and what it does meanwhile is in no fragment and no episode's return.
//
// A fragment has one column: the episodes of the first environment, one behind the other, then those of the second and
// so on. Each ends with `done`, which is all that gae.h has to know of it. Sequences for a policy that remembers are
// cut from the steps of each environment by themselves.
//
// The episodes of update u are seeded by the run's seed, the environment's number in the run, and u. So they depend on
// nothing before but the policy: a resumed run has the same, whether its environments can be saved or not.
//
// Threads: single-thread, the worker's.
#pragma once
#include <cstdint>
#include <vector>

#include "tandem/rl/env/spec.h"
#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/rollout/fragment.h"
#include "tandem/rl/rollout/rollout_worker.h"

namespace tandem::rl {

/// The worker's fragment has a rectangle of steps; this one has only the steps that count, in one column.
class CompleteEpisodes {
 public:
  /// Most steps that an environment of that kind makes in a fragment: what the worker's RolloutOptions::steps is to be.
  /// Throws ConfigError when its episodes have no time limit.
  [[nodiscard]] static int most_steps(const Spec& spec, int steps);

  /// `worker` must outlive this.
  /// `steps`: the least that every environment makes. Throws InvariantError when the worker's steps are not
  /// most_steps().
  CompleteEpisodes(RolloutWorker& worker, int steps, std::uint64_t run_seed);

  /// Makes the fragment of update `update`, counted from 0. Throws EnvError.
  /// All environments begin new episodes, seeded by the run's seed and `update`; so where episodes begin depends on no
  /// earlier update.
  const Fragment& collect(std::int64_t update, const Normalizers& frozen);
  /// A fragment of no steps.
  void rest();

  /// The fragment that collect() writes; the same object each time.
  [[nodiscard]] Fragment& fragment() { return fragment_; }

 private:
  // The two halves of collect(): step until all episodes are over, then copy what counts.
  void sample(const Normalizers& frozen);
  void join();

  RolloutWorker& worker_;
  const int steps_;
  const std::uint64_t run_seed_;
  // By environment: how many of its steps count; 0 until its last episode has ended.
  std::vector<int> made_;
  Fragment fragment_;
};

}  // namespace tandem::rl
