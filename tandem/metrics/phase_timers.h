// metrics/phase_timers.h: where the time of a thread went, by phase.
//
//   PhaseTimers timers({"sample", "load", "learn", "sync"});
//   {
//     const auto learning = timers.enter(kLearn);
//     ...
//     const auto waiting = timers.enter(kSync);   // learning is not charged until this ends
//   }
//   timers.milliseconds(kLearn);
//
// A phase inside another pauses the outer one, so the phases of a thread never add up to more than the time that
// passed. One call of the clock for each change of phase.
//
// Threads: single-thread; each thread has its own. Scopes end in the reverse order of their beginning, on the thread
// that began them, and before the timers do.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tandem/base/clock.h"

namespace tandem {

class PhaseTimers {
 public:
  class Scope {
   public:
    ~Scope() { timers_.leave(outer_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    friend class PhaseTimers;
    Scope(PhaseTimers& timers, std::optional<std::size_t> outer) : timers_(timers), outer_(outer) {}
    PhaseTimers& timers_;
    const std::optional<std::size_t> outer_;
  };

  explicit PhaseTimers(std::vector<std::string> names);

  /// Charges the time from now until the end of the scope to the phase with this index.
  [[nodiscard]] Scope enter(std::size_t phase);

  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  /// Charged since the last reset, up to the last change of phase.
  [[nodiscard]] Clock::duration total(std::size_t phase) const;
  [[nodiscard]] double milliseconds(std::size_t phase) const;
  /// Times that the phase was entered since the last reset.
  [[nodiscard]] std::uint64_t entries(std::size_t phase) const;
  /// All totals to zero. A phase that is open goes on and is charged from now.
  void reset();

 private:
  struct Phase {
    Clock::duration total{0};
    std::uint64_t entries = 0;
  };

  void leave(std::optional<std::size_t> outer);
  void charge();
  [[nodiscard]] const Phase& at(std::size_t phase) const;

  const std::vector<std::string> names_;
  std::vector<Phase> phases_;
  std::optional<std::size_t> current_;
  Clock::time_point since_;
};

}  // namespace tandem
