// Faults of ranks at random instants, and how long runs take to go on after them.
//
// Threads: single-thread.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <random>
#include <string>

#include "survivors.h"
#include "tandem/base/clock.h"

namespace tandem::process_test {

inline constexpr const char* kGoesOn = "goes on after update";  // in log.txt, once for each round but the first

/// With a seed that a failure can be repeated with.
class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}

  int below(int end) { return std::uniform_int_distribution(0, end - 1)(random_); }
  std::chrono::microseconds within(std::chrono::microseconds most) { return between({}, most); }
  std::chrono::microseconds between(std::chrono::microseconds least, std::chrono::microseconds most) {
    return std::chrono::microseconds(std::uniform_int_distribution(least.count(), most.count())(random_));
  }

 private:
  std::mt19937 random_;
};

/// What docs/dd_ppo.md promises for runs as small as these, in seconds: from a loss that is noticed, or from the
/// deadline where one had to be waited for, to the first update that the others make; and from then, or from a kill, to
/// the first update that the replacement makes with them. Sanitizers take several times as long.
[[nodiscard]] double to_go_on_within();
[[nodiscard]] double to_join_within();

/// Seconds that something took, again and again.
class Times {
 public:
  void add(double seconds);
  [[nodiscard]] double longest() const { return longest_; }
  /// Prints the longest and the mean, and makes them properties of the running test.
  void report(const std::string& what) const;

 private:
  double longest_ = 0, sum_ = 0;
  int count_ = 0;
};

/// A rank that is lost, and how the others went on.
struct Loss {
  std::int64_t recorded = 0;    // lines of metrics.jsonl that stood when it was signalled
  Clock::time_point signalled;  // the rank
  Clock::time_point went_on;    // the others: their first update after it was recorded

  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(went_on - signalled).count(); }
};

/// Signals a rank so that the others have to go on without it, and waits until they have made an update. Nothing when
/// they do not.
std::optional<Loss> lose_rank(Child& launcher, const std::filesystem::path& folder, int rank, int signal);
/// Waits until the first update of the newest round is recorded, whether or not the run ends then.
bool makes_an_update(Child& child, const std::filesystem::path& folder);
/// Waits until log.txt names so many replacements that were let in, and for the first update after it; how long that
/// took since then.
std::optional<double> join(Child& launcher, const std::filesystem::path& folder, int times, Clock::time_point since);

}  // namespace tandem::process_test
