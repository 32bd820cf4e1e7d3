// concurrency/spin_barrier.h: where a fixed number of threads wait for each other, again and again.
//
// Threads: arrive_and_wait() is called by each member on its own thread, with its own number; abort(), aborted() and
// arrived() by any thread. Destroy it only after all members have returned for the last time.
// What a member wrote before it arrived, all of them see after it.
// A member that waits spins for the budget and then sleeps. The wait ends when all have arrived, by abort(), or at the
// deadline.
// After an abort or a missed deadline the barrier is aborted for ever: each wait, present or future, throws.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/clock.h"
#include "tandem/concurrency/spin.h"
#include "tandem/concurrency/wait_word.h"

namespace tandem {

class SpinBarrier {
 public:
  /// `name` is for messages. The budget is best left to spin_budget_for(members).
  SpinBarrier(std::string name, int members, SpinBudget spin);
  SpinBarrier(std::string name, int members) : SpinBarrier(std::move(name), members, spin_budget_for(members)) {}
  SpinBarrier(const SpinBarrier&) = delete;
  SpinBarrier& operator=(const SpinBarrier&) = delete;

  /// Returns when all members have arrived as often as this one. Throws GroupAborted after abort(), and
  /// DeadlineExceeded, naming the members that are missing, when they did not come in time.
  void arrive_and_wait(int member, const Deadline& deadline);

  /// Fails everyone who waits or will wait. Call it when a member is lost. A round that was complete stays complete.
  void abort() noexcept;
  [[nodiscard]] bool aborted() const { return (round_.load() & kAborted) != 0; }

  [[nodiscard]] int members() const { return static_cast<int>(arrivals_.size()); }
  /// Members that have arrived in the present round.
  [[nodiscard]] int arrived() const { return arrived_.load(std::memory_order_relaxed); }
  /// Members that have given up spinning and sleep.
  [[nodiscard]] int sleepers() const { return round_.sleepers(); }

 private:
  static constexpr std::uint32_t kAborted = 1;   // the lowest bit of round_
  static constexpr std::uint32_t kOneRound = 2;  // so that counting rounds leaves that bit alone
  // The round that a member arrived in last. A cache line each: neighbours write at the same time.
  struct alignas(64) Arrival {
    std::atomic<std::uint32_t> round{0};
  };

  void wait_for_others(int member, std::uint32_t round, const Deadline& deadline);
  [[nodiscard]] std::string missing(std::uint32_t round) const;

  const std::string name_;
  const SpinBudget spin_;
  std::vector<Arrival> arrivals_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) WaitWord round_;
};

}  // namespace tandem
