// rl/algo/off_policy/experience_worker.h: steps one env group, remembers what it saw in a replay part, and draws rows
// to learn from.
//
// Everything that decides what happens belongs to the group: its environments, its explorer's random stream, its replay
// and its draws. So it does not depend on the replica, process or host that the group lies on.
//
// The replay holds observations as environments write them; what is drawn goes through the normalisers of the moment.
//
// Threads: single-thread, the replica's that owns the shard; step_environments() and mark() from any. Blocking: step()
// takes as long as the environments do.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tandem/base/philox.h"
#include "tandem/concurrency/stall_watch.h"
#include "tandem/rl/algo/off_policy/hindsight_goals.h"
#include "tandem/rl/algo/off_policy/transitions.h"
#include "tandem/rl/env/env_group.h"
#include "tandem/rl/policy/actor/actor.h"
#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/replay/replay_part.h"
#include "tandem/rl/rollout/episodes.h"
#include "tandem/rl/rollout/group_worker.h"
#include "tandem/rl/rollout/observation_intake.h"

namespace tandem::rl {

/// Who chooses the actions of a step.
enum class Chooser {
  kExplorer,
  kChance,  // evenly from the action space, or from what a mask allows
};

/// Fixed for the worker's life.
struct ExperienceOptions {
  ReplayOptions replay = {};
  // Leaves that are stacks of frames, of which the replay keeps each frame once.
  FrameStacks frame_stacks = {};
  // As OffPolicyOptions has them.
  Hindsight hindsight = Hindsight::kNone;
  int hindsight_goals = 4;
  NormalizerOptions normalizer = {};
  // The discount of the returns whose spread scales rewards.
  double gamma = 0.99;
  // Takes what a group notices of observations (ObservationIntake); null where it is to say nothing.
  std::shared_ptr<Remarks> remarks = {};
};

class ExperienceWorker {
 public:
  using Resumed = GroupWorker::Resumed;

  /// `shard`: its number in the run, from which and `run_seed` its random streams follow. `first_env`: number in the
  /// run of the group's first environment. Throws ConfigError when a leaf cannot be normalised, the replay cannot be or
  /// the environment does not suit hindsight.
  ExperienceWorker(std::unique_ptr<EnvGroup> group, std::unique_ptr<Actor> explorer, ExperienceOptions options,
                   std::uint64_t run_seed, int shard, int first_env);

  /// Starts new episodes, seeded from `seed` and each environment's number in the run.
  void reset(std::uint64_t seed);

  /// Begins an update, whose moments and episodes are told by append_results().
  void begin_update();
  /// One step of all environments, which the replay remembers. Throws EnvError, and ConfigError for an environment
  /// whose rewards do not follow from its goals where there is hindsight.
  void step(Chooser chooser, const Normalizers& frozen);
  /// The three parts of step(), for environments that step while something else is done: begin_step() chooses actions,
  /// step_environments() makes the step, on any thread, and end_step() remembers it. Between the first and the last of
  /// them prioritize() may be called, and parameters may change; so may draw() without hindsight, which asks the
  /// environments for rewards.
  void begin_step(Chooser chooser, const Normalizers& frozen);
  void step_environments();
  void end_step(const Normalizers& frozen);
  /// The policy's parameters have changed.
  void refresh() { explorer_->refresh(); }
  void set_progress(double share) { group_->set_progress(share); }

  /// Fills `into` with rows of the replay. `beta`: how far weights make up for priorities; the largest weight
  /// becomes 1.
  void draw(double beta, const Normalizers& frozen, TransitionRows& into);
  /// Gives the rows of the last draw() their priorities.
  void prioritize(std::span<const float> errors);

  [[nodiscard]] const Spec& spec() const { return group_->spec(); }
  /// The group's own past, for its figures.
  [[nodiscard]] const ReplayPart& replay() const { return *part_; }
  /// Whether the group is inside a step.
  [[nodiscard]] const CallMark& mark() const { return mark_; }

  /// As GroupWorker::append_results().
  void append_results(std::vector<double>& numbers);
  /// The state of the environments, the explorer and the streams; not the replay, which save_replay() gives.
  [[nodiscard]] std::vector<std::byte> save() const;
  /// As GroupWorker::load(). After restore_replay(): where new episodes begin, the replay is told.
  Resumed load(std::span<const std::byte> state, std::uint64_t seed_for_new_episodes);
  [[nodiscard]] ReplaySnapshot save_replay() const { return part_->snapshot(); }
  /// Goes on with a replay that was saved, also by a build that kept stacks of frames whole. Throws CheckpointError.
  void restore_replay(const ReadReplayPiece& read);

 private:
  // The parts of a step: choose() writes the actions, record() adds up what came of them.
  void choose(Chooser chooser, const Normalizers& frozen);
  void cut_actions();
  void choose_by_chance();
  void record(const Normalizers& frozen);
  // Rows as the policy sees them, of leaves where that is another memory.
  void show(const std::vector<at::Tensor>& raw, const std::vector<at::Tensor>& seen, std::int64_t rows,
            const Normalizers& frozen);
  void make_part(const ExperienceOptions& options);
  void make_draw_memory(std::int64_t rows, TransitionRows& into);

  const std::unique_ptr<EnvGroup> group_;
  const std::unique_ptr<Actor> explorer_;
  const ExperienceOptions options_;
  const int rows_, first_env_;
  const std::uint64_t replay_seed_;
  std::unique_ptr<ReplayPart> part_;
  std::optional<GoalCheck> goals_;  // with hindsight
  // The choices of chance and the losses' noise have a stream each.
  Philox chance_, noise_;
  // Told and cleared by append_results().
  EpisodeTracker episodes_;
  NormalizerMoments moments_;
  ObservationIntake intake_;
  int steps_made_ = 0;  // since begin_update()
  CallMark mark_;

  // Memory of one step. present_: per leaf [N, ...], as the environments wrote it; seen_: as the policy sees it, the
  // same memory where there is no difference.
  std::vector<at::Tensor> present_, seen_, final_;
  at::Tensor mask_;  // [N, mask elements]; undefined without masks
  std::vector<double> reward_, discounted_, metrics_;
  std::vector<std::uint8_t> terminated_, truncated_, done_;
  EnvArrays arrays_;
  // [N, elements]: as chosen, and within bounds. [N]: what nobody asks for, and actors tell.
  std::vector<std::int64_t> discrete_;
  std::vector<float> box_, bounded_, log_prob_, value_;
  EnvActions taken_ = {};  // what the environments get

  // Memory of a draw: leaves that are converted, and numbers that a replay tells in float64.
  SampleArrays drawn_;
  std::vector<at::Tensor> raw_, raw_next_;
  std::vector<double> reward_drawn_, discount_drawn_, weight_drawn_;
  std::vector<std::int64_t> row_drawn_;
};

}  // namespace tandem::rl
