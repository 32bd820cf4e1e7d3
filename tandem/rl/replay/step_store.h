// rl/replay/step_store.h: the steps of one env group in memory: what append() writes, and each row of them again.
//
// Two rings (record_ring.h) hold all. Record t of `steps` has the observation before step t with its mask, the action
// and the reward of step t, and how step t - 1 ended the episodes. So the present observation is record now(), which
// waits for its action; and whatever is still to come changes no record before now(), whose segments may be shared with
// a snapshot. `ends` has the last observations of episodes.
//
// Threads: single-thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "tandem/rl/env/env_group.h"
#include "tandem/rl/env/state_bytes.h"
#include "tandem/rl/replay/episode_index.h"
#include "tandem/rl/replay/n_step.h"
#include "tandem/rl/replay/record_ring.h"
#include "tandem/rl/replay/replay_options.h"
#include "tandem/rl/replay/store_plan.h"

namespace tandem::rl {

class StepStore {
 public:
  /// Throws ConfigError with all option_faults(), RunError or CheckpointError when memory cannot be had.
  StepStore(const Spec& spec, int envs, const ReplayOptions& options);

  /// ReplayPart::begin() and append(): the same arguments, errors and promises.
  void begin(const EnvArrays& first);
  void append(const EnvActions& actions, const EnvArrays& step);

  /// Whether there is a present observation.
  [[nodiscard]] bool has_begun() const { return steps_.end() > 0; }
  /// Complete steps so far, which is the number of the step to come.
  [[nodiscard]] std::int64_t now() const { return has_begun() ? steps_.end() - 1 : 0; }
  /// The oldest step whose rows are whole: their stacks and their ends are held.
  [[nodiscard]] std::int64_t oldest() const { return oldest_; }

  /// Reads rows, of steps from oldest() to now() - 1; `env` is below envs.
  [[nodiscard]] double reward(std::int64_t step, std::int64_t env) const {
    double value = 0;
    std::memcpy(&value, steps_.at(plan_.reward, step) + static_cast<std::size_t>(env) * sizeof(double), sizeof(double));
    return value;
  }
  /// How the step ended the episode (n_step.h).
  [[nodiscard]] std::uint8_t end_of(std::int64_t step, std::int64_t env) const {
    return std::to_integer<std::uint8_t>(steps_.at(plan_.flags, step + 1)[env]);
  }
  /// Writes action_bytes bytes.
  void copy_action(std::int64_t step, std::int64_t env, void* into) const {
    std::memcpy(into, row_of(plan_.action, plan_.action_bytes, step, env), plan_.action_bytes);
  }
  /// The observation before the step, as it is shown: shown_bytes() of the leaf, stacks put together. Also that of
  /// now().
  void copy_observation(std::size_t leaf, std::int64_t step, std::int64_t env, std::byte* into) const;
  /// Writes the mask of the observation before the step, mask_bytes bytes.
  void copy_mask(std::int64_t step, std::int64_t env, std::uint8_t* into) const {
    std::memcpy(into, row_of(plan_.mask, plan_.mask_bytes, step, env), plan_.mask_bytes);
  }
  /// The observation after the step: that before the next one, or the last one of the episode. Where the latter was not
  /// kept, the observation before the step.
  void copy_next_observation(std::size_t leaf, std::int64_t step, std::int64_t env, std::byte* into) const;
  /// The mask of the observation after the step: all ones where the episode ended.
  void copy_next_mask(std::int64_t step, std::int64_t env, std::uint8_t* into) const;
  /// Asks for the row's memory, and that of the observation `ahead` steps later, before it is read.
  void prefetch(std::int64_t step, std::int64_t env, std::int64_t ahead) const;

  /// What follows from the spec and the options, and the ends that are kept, by environment.
  [[nodiscard]] const StorePlan& plan() const { return plan_; }
  [[nodiscard]] const EpisodeIndex& episodes() const { return episodes_; }
  /// Memory that is held.
  [[nodiscard]] std::uint64_t bytes() const;

  /// For snapshots: the numbers go into the state, everything else into pieces.
  void put(StateWriter& state) const;
  void append_pieces(std::vector<ReplayPiece>& pieces) const;
  /// Throws CheckpointError for what append_pieces() and put() cannot have given; the store is empty then.
  void restore(StateReader& state, const ReadReplayPiece& read);
  /// As after the construction.
  void clear();

 private:
  StepStore(const Spec& spec, KeptEnds kept_ends, const StorePlan& plan, const ReplayMemory& memory);
  StepStore(Spec spec, KeptEnds kept_ends, StorePlan plan, const std::shared_ptr<std::byte>& memory);

  // The row of a column whose rows have `bytes` bytes.
  [[nodiscard]] const std::byte* row_of(std::size_t column, std::size_t bytes, std::int64_t step,
                                        std::int64_t env) const {
    return steps_.at(column, step) + static_cast<std::size_t>(env) * bytes;
  }
  // The frames of a stack as they lie in memory, oldest first.
  void find_frames(std::size_t leaf, std::int64_t step, std::int64_t env, std::span<const std::byte*> frames) const;

  // What append() and begin() do, in this order; the checks throw and change nothing.
  void check_arrays(const EnvArrays& arrays) const;
  void check_actions(const EnvActions& actions) const;
  void check_step(const EnvArrays& step) const;
  void check_first(std::size_t leaf, const std::byte* given, std::int64_t env) const;
  void check_next(std::size_t leaf, const std::byte* given, std::int64_t env) const;
  void check_last(std::size_t leaf, const std::byte* given, std::int64_t env, std::uint8_t end) const;
  // Whether the row is, in all its frames, the observation before the step.
  [[nodiscard]] bool shows_present(std::size_t leaf, const std::byte* row, std::int64_t env) const;
  void check_range(std::size_t leaf, const std::byte* given, std::int64_t env) const;
  // The writing itself cannot fail.
  void write_actions(const EnvActions& actions, const double* reward);
  void push_step();
  void write_observation(const EnvArrays& from);
  void write_frames(std::size_t leaf, const std::byte* given, std::int64_t rows, std::byte* into) const;
  [[nodiscard]] bool is_kept(std::uint8_t end) const {
    return end != 0 && (kept_ends_ == KeptEnds::kAll || end == kStepTruncated);
  }
  // Makes a record for the end of the episode that ended with step now() - 1.
  [[nodiscard]] std::int64_t push_end(std::int64_t env);
  void give_up_oldest();

  // What restore() compares.
  void check_rows(const StateReader& state) const;
  void index_ends(const StateReader& state);

  const Spec spec_;
  const KeptEnds kept_ends_;
  const StorePlan plan_;
  RecordRing steps_, ends_;
  EpisodeIndex episodes_;
  std::int64_t oldest_ = 0;
  // The step after the last one whose end was dropped for want of room.
  std::int64_t after_dropped_end_ = 0;
};

}  // namespace tandem::rl
