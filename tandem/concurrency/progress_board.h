// concurrency/progress_board.h: shows how far each unit of a run has come in its present round.
//
// A unit is anything that makes progress by itself: an env group, a rank. The thread that does the unit's work posts
// its progress, and any thread looks at it without a lock. A posting may be a moment old when it is seen, so the board
// serves decisions that need no agreement, or whose outcome is agreed upon later.
//
//   board.post(group, {.round = update, .steps = 128, .finished = true});   // the worker of the group
//   if (board.look(other).finished) ...                                     // any thread
//
// Threads: all members may be called from any thread; a unit has one writer at a time. Nothing blocks.
// Ownership: copies share the same board.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "tandem/base/check.h"

namespace tandem {

/// A unit's progress. The user counts the rounds, upwards.
struct Progress {
  std::int64_t round = -1;  // the round that the unit is in or has finished; -1 before the first
  int steps = 0;            // made in this round
  bool finished = false;    // the unit makes no more steps in this round

  bool operator==(const Progress&) const = default;
};

/// Postings of one unit replace each other; a reader may miss some, and never sees half of one.
class ProgressBoard {
 public:
  /// A unit's posting in one word, round, flag and steps from the highest bits down. Zero stands for no posting yet.
  /// The round is stored plus one, so that a posting of round 0 differs from no posting.
  using Cell = std::atomic<std::uint64_t>;
  static_assert(Cell::is_always_lock_free, "cells may lie in memory that processes share");

  /// Makes a board of this process.
  explicit ProgressBoard(int units) : ProgressBoard(std::shared_ptr<Cell[]>(new Cell[cells(units)]()), units) {}
  /// Makes a board in shared memory, which was zeroed before its first use. All processes that map it see the same
  /// board. The memory has a cell for each unit and lives as long as the last copy of the board.
  ProgressBoard(std::shared_ptr<Cell[]> memory, int units) : cells_(std::move(memory)), units_(units) {}

  [[nodiscard]] int units() const { return units_; }

  /// Replaces the unit's posting. Rounds go up to 2^39, steps up to 2^23; InvariantError beyond.
  void post(int unit, const Progress& progress) {
    TANDEM_CHECK(progress.steps >= 0 && progress.steps < kSteps && progress.round >= 0, progress.steps,
                 " steps of round ", progress.round);
    const std::uint64_t finished = progress.finished ? kFinished : 0;
    set_cell(unit, (static_cast<std::uint64_t>(progress.round) + 1) << kShift | finished |
                       static_cast<std::uint64_t>(progress.steps));
  }
  /// The unit's newest posting that this thread can see. A unit without a posting has round -1 and no steps.
  [[nodiscard]] Progress look(int unit) const {
    const std::uint64_t value = cell(unit);
    return {.round = static_cast<std::int64_t>(value >> kShift) - 1,
            .steps = static_cast<int>(value & (kFinished - 1)),
            .finished = (value & kFinished) != 0};
  }

  /// A unit's posting as one number, to be carried to another board.
  [[nodiscard]] std::uint64_t cell(int unit) const { return at(unit).load(std::memory_order_acquire); }
  /// A value that set_cell() stores must come from cell() of another board.
  void set_cell(int unit, std::uint64_t value) { at(unit).store(value, std::memory_order_release); }

 private:
  // A word has 23 bits of steps, then one bit of the flag, and the round above them.
  static constexpr int kSteps = 1 << 23;
  static constexpr std::uint64_t kFinished = kSteps;
  static constexpr int kShift = 24;

  static std::size_t cells(int units) {
    TANDEM_CHECK(units >= 1, units, " units");
    return static_cast<std::size_t>(units);
  }
  // Throws InvariantError for a unit that the board does not have.
  [[nodiscard]] Cell& at(int unit) const {
    TANDEM_CHECK(unit >= 0 && unit < units_, "unit ", unit, " of ", units_);
    return cells_[static_cast<std::size_t>(unit)];
  }

  std::shared_ptr<Cell[]> cells_;
  int units_;
};

}  // namespace tandem
