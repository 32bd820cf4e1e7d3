// rl/rollout/rollout_worker.h: steps one env group with a policy and writes a fragment.
//
// Into memory of its own, which is the same for each, or into memory of the caller's, such as a slot of a queue. The
// environments write their observations there themselves, unless a normaliser comes between.
//
// Everything that decides what happens belongs to the group: its environments, its actor's random streams, its running
// statistics. So a group's fragment does not depend on the replica, process or host that it runs on.
//
// Normalisers are frozen while a fragment is collected: the group gathers moments of what it sees, and the caller
// merges those of all groups afterwards and hands the result to all of them.
//
// Threads: single-thread, the replica's that owns the group; or several in turn, each of which sees what the one before
// did.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tandem/rl/env/env_group.h"
#include "tandem/rl/policy/actor/actor.h"
#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/rollout/episodes.h"
#include "tandem/rl/rollout/fragment.h"
#include "tandem/rl/rollout/group_worker.h"

namespace tandem::rl {

/// An env group of one-agent environments with its actor. The normalizers that it is given stay frozen during a
/// fragment; its own moments are merged by the run afterwards.
class RolloutWorker : public GroupWorker {
 public:
  /// `first_env`: number in the run of the group's first environment. Throws ConfigError when a leaf cannot be
  /// normalised.
  RolloutWorker(std::unique_ptr<EnvGroup> group, std::unique_ptr<Actor> actor, const RolloutOptions& options,
                int first_env);

  void reset(std::uint64_t run_seed) override;

  /// Memory for one of this worker's fragments.
  [[nodiscard]] Fragment make_fragment() const;
  /// The worker's own, made with the first call.
  [[nodiscard]] Fragment& fragment();
  [[nodiscard]] Fragment& fragment(std::size_t /*seat*/) override { return fragment(); }

  /// Steps the group `steps` times and writes its own fragment. Throws EnvError. Before the first call: reset() or
  /// load().
  const Fragment& collect(const Normalizers& frozen);
  void sample(std::int64_t /*update*/, std::span<const Normalizers> frozen) override { (void)collect(frozen.front()); }
  void begin_sample(std::span<const Normalizers> frozen) override { begin(frozen.front()); }
  void step_sample(std::span<const Normalizers> frozen) override { step(frozen.front()); }
  void end_sample() override { (void)end(); }
  /// Collects step by step, for a fragment that may end early: begin(), step() once at least and `steps` times at most,
  /// end(). The next fragment goes on where this one ended.
  void begin(const Normalizers& frozen) { begin(frozen, fragment()); }
  void step(const Normalizers& frozen);
  const Fragment& end();
  void rest() override;
  /// Into memory of make_fragment(), the worker's until end(); what it held before does not matter.
  void begin(const Normalizers& frozen, Fragment& into);
  /// step() in two: the policy acts, and the environments take its actions.
  void choose();
  void advance(const Normalizers& frozen);
  /// Since begin().
  [[nodiscard]] int steps_made() const override { return at_; }
  void set_progress(double share) override { group_->set_progress(share); }
  [[nodiscard]] int envs() const override { return group_->size(); }
  /// In a fragment, at most.
  [[nodiscard]] int steps() const { return options_.steps; }
  /// At whose begins states are kept, of policies that have them.
  [[nodiscard]] const SequenceOptions& sequences() const { return options_.sequences; }

  [[nodiscard]] EnvGroup& group() { return *group_; }
  [[nodiscard]] Actor& actor() { return *actor_; }
  /// Episodes that are under way or have finished and were not yet taken by append_results().
  [[nodiscard]] EpisodeTracker& episodes() { return episodes_; }
  /// Moments of the observations and discounted returns in the last fragment; begin() zeroes them.
  [[nodiscard]] const NormalizerMoments& moments() const { return moments_; }

  void append_results(std::vector<double>& numbers) override;
  [[nodiscard]] std::vector<std::byte> save() const override;
  Resumed load(std::span<const std::byte> state, std::uint64_t seed_for_new_episodes) override;
  /// Environments of the group that save() made these bytes of. Throws CheckpointError on bytes that it cannot read.
  [[nodiscard]] static std::int64_t saved_envs(std::span<const std::byte> state);

 private:
  // The parts of one step, in the order in which choose() and advance() call them.
  void act(int t);
  void step_environments(int t);
  void record(int t, const Normalizers& frozen);
  void gather_moments();
  void show_present(int t, const Normalizers& frozen);
  void keep_state(int t);
  void keep_present();
  void expect_truncated();
  void keep_truncated(int t, int row, const Normalizers& frozen);
  void bootstrap();
  // Both return arrays_, pointed at other memory.
  [[nodiscard]] const EnvArrays& arrays_at(int t);
  [[nodiscard]] const EnvArrays& present_arrays();

  const std::unique_ptr<EnvGroup> group_;
  const std::unique_ptr<Actor> actor_;
  const RolloutOptions options_;
  const int rows_, first_env_;
  // Made with the first fragment(): workers that write into a queue's slots need none.
  std::unique_ptr<Fragment> own_;
  // The fragment that is written, between begin() and end(); else null.
  Fragment* fragment_ = nullptr;
  // The fragment's row with the present observation: as many steps were made since begin().
  int at_ = 0;
  EpisodeTracker episodes_;
  NormalizerMoments moments_;
  ObservationIntake intake_;
  // The last observations, as the environments wrote them, per leaf [N, ...]: between fragments, since the next one's
  // memory may be another; of leaves that the intake converts, after every step.
  std::vector<at::Tensor> present_;
  // [N, mask elements], between fragments; undefined without masks.
  at::Tensor present_mask_;
  // Memory of one step.
  std::vector<at::Tensor> final_;            // per leaf [N, ...]
  std::vector<double> reward_, discounted_;  // [N]; discounted_: running discounted return, for reward scaling
  std::vector<std::uint8_t> terminated_, truncated_;
  // [N, metrics of the spec]: the group writes the rows of episodes that end, and they are read in the same step. Empty
  // where the environments have none.
  std::vector<double> metrics_;
  // Pointers to where the next step of the environments goes.
  EnvArrays arrays_;
  std::vector<float> box_;  // [N, elements] within bounds
  // Rows whose episode was cut short, and what they saw last: row i of truncated_observation_ and truncated_state_
  // belongs to truncated_at_[i].
  // The position in the fragment: t * N + row.
  std::vector<std::ptrdiff_t> truncated_at_;
  // Per leaf, as the policy sees it.
  std::vector<at::Tensor> truncated_observation_;
  // The state of the row at its cut; undefined without states.
  at::Tensor truncated_state_;
  // Per leaf, the rows of truncated_observation_ that are used.
  std::vector<at::Tensor> truncated_views_;
  std::vector<float> truncated_value_;
};

}  // namespace tandem::rl
