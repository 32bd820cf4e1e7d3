// rl/replay/replay_part.h: the past steps of one env group, and draws from them.
//
//   ReplayPart part(group->spec(), group->size(), options, derive_seed(run_seed, SeedPurpose::kReplay, shard));
//   group->reset(seeds, arrays);
//   part.begin(arrays);
//   ...
//   group->step(actions, arrays);
//   part.append(actions, arrays);
//   if (part.drawable() > 0) part.sample(256, into);
//
// A row is one step of one environment. Rows are numbered over the part's whole life, step by step: row t * N + e is
// what environment e of N did in step t. Numbers are never used again, so a number says whether its row is still held.
//
// Observations are stored once: the next observation of a row is the observation of the same environment in the step
// after it. Last observations of episodes, which no row shows, are kept apart (KeptEnds).
//
// Threads: single-thread, the replica's that owns the shard, or several in turn under a lock of the caller's. A shard
// has one part, and all that it draws comes from a stream of the part's own; so the rows do not depend on the replica,
// process or host that it is on. No function blocks, but for page faults of a file.
// Memory: taken by the constructor. Later calls take none, but for memory of one draw, which is kept, for snapshots,
// and for an index of episodes' ends that grows to 16 bytes for each kept end.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tandem/rl/env/env_group.h"
#include "tandem/rl/replay/n_step.h"
#include "tandem/rl/replay/replay_options.h"
#include "tandem/rl/replay/replay_snapshot.h"

namespace tandem::rl {

/// Where sample() writes, in memory of the caller's: row i of each array belongs to the i-th drawn row. An array that
/// is null, or a vector that is empty, is not wanted. Each array is aligned for its elements.
struct SampleArrays {
  /// By leaf: [rows, elements] as stored: the leaf's type, or float32 where LeafStorage says so.
  std::vector<std::byte*> observation = {};
  /// By leaf: the observation that the target bootstraps from: n steps later, or the last one of the episode if that
  /// was truncated before. See KeptEnds for terminated ones.
  std::vector<std::byte*> next_observation = {};
  /// [rows, action_elements()]; the one that the spec's actions have.
  std::int64_t* discrete = nullptr;
  float* box = nullptr;
  /// [rows]: r_0 + gamma r_1 + ... over the n steps of the row, or over those until its episode ended.
  double* reward = nullptr;
  /// [rows]: the factor of the bootstrap: gamma^m for m summed rewards, 0 if the episode terminated with the last of
  /// them. So a target is reward + discount * V(next_observation).
  double* discount = nullptr;
  /// [rows, mask_elements()]: of specs with masks. All options are allowed in the mask of a truncated episode's last
  /// observation, since environments do not tell it.
  std::uint8_t* action_mask = nullptr;
  std::uint8_t* next_action_mask = nullptr;
  /// [rows]: (R P)^-beta for a row of chance P among R that could be drawn; 1 in uniform draws. Not divided by the
  /// largest: a caller with several parts divides all by the largest of all.
  double* weight = nullptr;
  /// [rows]: the rows' numbers, for update_priorities().
  std::int64_t* row = nullptr;
};

/// Counts run over the part's whole life, also over checkpoints.
struct ReplayStats {
  std::int64_t rows = 0, capacity = 0;     // held now, and at most
  std::int64_t inserted = 0, sampled = 0;  // sampled counts a row as often as it was drawn
  double samples_per_insert = 0;           // sampled / inserted; 0 before the first insert
  double mean_age = 0;                     // rows inserted since, of the rows of the last draw
  double priority_mean = 0;                // of the rows that can be drawn, as (priority + epsilon)^alpha
  double priority_max = 0;                 // the largest priority given so far; 0 in uniform parts
  std::uint64_t bytes = 0;                 // of memory that is held, snapshots' share included
};

class ReplayPart {
 public:
  /// For `envs` environments of the spec. `seed`: of the part's random stream. Throws ConfigError with all
  /// option_faults(), RunError when memory or the file cannot be had.
  ReplayPart(const Spec& spec, int envs, ReplayOptions options, std::uint64_t seed);
  ~ReplayPart();
  ReplayPart(const ReplayPart&) = delete;
  ReplayPart& operator=(const ReplayPart&) = delete;

  /// The group began new episodes in all environments, with these observations and masks. Episodes that were under way
  /// are truncated, and their present observation is their last one. Not needed after a restore() when the group was
  /// loaded exactly, since the part knows the present observation.
  void begin(const EnvArrays& first);

  /// One step of the group, with what it was given and what it wrote. `step.final_observation` is needed in each row
  /// whose end is kept. Throws ConfigError before begin(), for a stack that LeafStorage describes wrongly, and where
  /// final observations are missing; EnvError for a number beyond float32 in a leaf that is narrowed. The part is
  /// unchanged then.
  void append(const EnvActions& actions, const EnvArrays& step);

  /// Rows that sample() draws from: those whose n steps are complete. The newest n - 1 steps are not among them.
  [[nodiscard]] std::int64_t drawable() const;

  /// Draws `rows` rows with replacement, each uniformly among the drawable, or in proportion to priorities: then the
  /// sum of all is cut into `rows` equal ranges and one row is drawn from each, as Schaul et al. do. `beta`, 0 .. 1:
  /// how far the weights make up for the priorities. `scale`: of each reward that is summed. Throws ConfigError while
  /// nothing is drawable().
  void sample(std::int64_t rows, const SampleArrays& into, double beta = 0, const ClippedScale& scale = {});

  /// Gives rows their priorities: finite numbers of at least 0, such as absolute temporal-difference errors. Rows that
  /// were overwritten since they were drawn are passed over; of equal numbers the last one counts. Does nothing in
  /// uniform parts. Throws ConfigError for another number, before any is changed.
  void update_priorities(std::span<const std::int64_t> rows, std::span<const double> priorities);

  /// The part as it is now, to be written by another thread. Copies the newest segment, which is being written, and the
  /// priorities; everything else is shared.
  [[nodiscard]] ReplaySnapshot snapshot() const;
  /// Goes back to a snapshot of a part of the same spec and options (`memory` may differ); continues with the same
  /// draws. Throws CheckpointError, which names the piece, when something is missing, of another size, or cannot be
  /// right; the part is empty then, as after its construction.
  void restore(const ReadReplayPiece& read);

  /// Whether a snapshot is of a part of this spec and these options. Throws CheckpointError where it cannot be read.
  [[nodiscard]] bool fits(const ReadReplayPiece& read) const;

  [[nodiscard]] ReplayStats stats() const;
  [[nodiscard]] const ReplayOptions& options() const;
  /// The leaves as sample() writes them: the spec's, with float32 where they are narrowed.
  [[nodiscard]] const std::vector<Leaf>& leaves() const;
  [[nodiscard]] int envs() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tandem::rl
