// rl/rollout/complete_episodes.h: fragments of complete episodes, as RLlib's batch_mode of that name has them.
//
// All environments of the group begin an episode with the fragment, and each makes `steps` steps and then those that
// end the episode it is in. So fragments have different numbers of rows, nothing is estimated behind a fragment's end,
// and no episode is sampled by two policies. The price: an environment that is done goes on with the others of its
// group until the last of them is, and what it does meanwhile is in no fragment and no episode's return.
//
// A fragment has one column: the episodes of the first environment, one behind the other, then those of the second and
// so on. Each ends with `done`, which is all that compute_gae() has to know of it. Sequences for a policy that
// remembers are cut from the steps of each environment by themselves.
//
// The episodes of update u are seeded by the run's seed, the environment's number in the run, and u. So they depend on
// nothing before but the policy: a resumed run has the same, whether its environments can be saved or not.
//
// Threads: single-thread, the worker's.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "tandem/rl/rollout/rollout_worker.h"

namespace tandem::rl {

/// A worker whose fragments have complete episodes: fragment() has a rectangle of steps, and fragment(0) only those
/// that count, in one column.
class CompleteEpisodes final : public RolloutWorker {
 public:
  /// Most steps that an environment of that kind makes in a fragment: what RolloutOptions::steps is to be.
  /// Throws ConfigError when its episodes have no time limit.
  [[nodiscard]] static int most_steps(const Spec& spec, int steps);

  /// `steps`: the least that every environment makes. Throws InvariantError when the options' steps are not
  /// most_steps().
  CompleteEpisodes(std::unique_ptr<EnvGroup> group, std::unique_ptr<Actor> actor, const RolloutOptions& options,
                   int first_env, int steps, std::uint64_t run_seed);

  /// All environments begin new episodes, seeded by the run's seed and `update`; so where episodes begin depends on no
  /// earlier update.
  void sample(std::int64_t update, std::span<const Normalizers> frozen) override;
  void rest() override;
  [[nodiscard]] int rows_made() const override { return joined_.steps; }
  using RolloutWorker::fragment;
  [[nodiscard]] Fragment& fragment(std::size_t /*seat*/) override { return joined_; }
  /// Exact in any case, since each fragment begins new episodes.
  Resumed load(std::span<const std::byte> state, std::uint64_t seed_for_new_episodes) override;

 private:
  // The two halves of sample(): step until all episodes are over, then copy what counts.
  void make_steps(const Normalizers& frozen);
  void join();

  const int steps_;
  const std::uint64_t run_seed_;
  // By environment: how many of its steps count; 0 until its last episode has ended.
  std::vector<int> made_;
  Fragment joined_;
};

}  // namespace tandem::rl
