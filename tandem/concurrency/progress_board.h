// concurrency/progress_board.h: how far each unit of a run has come in what all are doing at the moment, seen by all.
//
// A unit is whatever makes progress by itself: an env group, a rank. Who does its work posts; anybody looks, without
// waiting and without a lock. What is seen may be a moment old, so it is for decisions that need no agreement, or whose
// outcome is agreed upon later.
//
// Threads: all members from any; a unit has one writer at a time. Ownership: copies are the same board.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "tandem/base/check.h"

namespace tandem {

/// Rounds are counted by the user, upwards.
struct Progress {
  std::int64_t round = -1;  // the one that the unit is in or has finished; -1 before the first
  int steps = 0;            // of it
  bool finished = false;    // it makes no more steps in it

  bool operator==(const Progress&) const = default;
};

class ProgressBoard {
 public:
  /// What a unit has written; zero: nothing yet.
  using Cell = std::atomic<std::uint64_t>;
  static_assert(Cell::is_always_lock_free, "cells may lie in memory that processes share");

  /// A board of this process.
  explicit ProgressBoard(int units) : ProgressBoard(std::shared_ptr<Cell[]>(new Cell[cells(units)]()), units) {}
  /// A board in memory of others, zeroed before the first of them came: the processes that map it see the same.
  ProgressBoard(std::shared_ptr<Cell[]> memory, int units) : cells_(std::move(memory)), units_(units) {}

  [[nodiscard]] int units() const { return units_; }

  /// Rounds up to 2^39, steps up to 2^23.
  void post(int unit, const Progress& progress) {
    TANDEM_CHECK(progress.steps >= 0 && progress.steps < kSteps && progress.round >= 0, progress.steps,
                 " steps of round ", progress.round);
    const std::uint64_t finished = progress.finished ? kFinished : 0;
    set_cell(unit, (static_cast<std::uint64_t>(progress.round) + 1) << kShift | finished |
                       static_cast<std::uint64_t>(progress.steps));
  }
  [[nodiscard]] Progress look(int unit) const {
    const std::uint64_t value = cell(unit);
    return {.round = static_cast<std::int64_t>(value >> kShift) - 1,
            .steps = static_cast<int>(value & (kFinished - 1)),
            .finished = (value & kFinished) != 0};
  }

  /// A unit's posting as one number, for who carries it to another board.
  [[nodiscard]] std::uint64_t cell(int unit) const { return at(unit).load(std::memory_order_acquire); }
  void set_cell(int unit, std::uint64_t value) { at(unit).store(value, std::memory_order_release); }

 private:
  static constexpr int kSteps = 1 << 23;
  static constexpr std::uint64_t kFinished = kSteps;
  static constexpr int kShift = 24;

  static std::size_t cells(int units) {
    TANDEM_CHECK(units >= 1, units, " units");
    return static_cast<std::size_t>(units);
  }
  [[nodiscard]] Cell& at(int unit) const {
    TANDEM_CHECK(unit >= 0 && unit < units_, "unit ", unit, " of ", units_);
    return cells_[static_cast<std::size_t>(unit)];
  }

  std::shared_ptr<Cell[]> cells_;
  int units_;
};

}  // namespace tandem
