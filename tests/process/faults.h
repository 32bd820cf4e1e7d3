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

/// Seconds that something took, again and again. They are reported, not judged: a busy machine is no fault.
class Times {
 public:
  void add(double seconds);
  /// Prints the longest and the mean, and makes them properties of the running test.
  void report(const std::string& what) const;

 private:
  double longest_ = 0, sum_ = 0;
  int count_ = 0;
};

/// A rank that is lost, and how the others went on.
struct Loss {
  std::int64_t recorded = 0;  // lines of metrics.jsonl that stood when it was signalled
  double seconds = 0;         // from then on
};

/// Signals a rank so that the others have to go on without it, and waits until they do. Nothing when they do not.
std::optional<Loss> lose_rank(Child& launcher, const std::filesystem::path& folder, int rank, int signal);

}  // namespace tandem::process_test
