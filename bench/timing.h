// bench/timing.h: what benches within one process share: samples of times, their percentiles, and the line of JSON.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/clock.h"

namespace tandem::bench {

enum class Size { kSmoke, kFull };

/// What main() of a bench does: `run` with kSmoke when called with --smoke, with kFull without arguments. Its result is
/// the exit status: 0, or 1 when an answer is wrong. 2 for other arguments; what it throws is printed, and 1.
[[nodiscard]] int bench_main(int argc, char** argv, int (*run)(Size size));

/// Seconds of each repetition of one thing.
class Samples {
 public:
  explicit Samples(std::vector<double> seconds);
  /// The time that a `share` of all repetitions did not exceed: 0.5 for the median.
  [[nodiscard]] double quantile(double share) const;
  [[nodiscard]] double mean() const;
  [[nodiscard]] std::size_t size() const { return seconds_.size(); }

 private:
  std::vector<double> seconds_;  // ascending
};

/// How often to repeat something that takes `seconds` so that it fills `budget` seconds, within 5 .. 200,000.
[[nodiscard]] int repetitions(double seconds, double budget);

/// One number of one contender in one case, as bench/run.py reads it.
struct Line {
  std::string case_name, contender, unit;  // "2 x 4 MiB", "tandem", "us"
  double value = 0;
  double p99 = 0;  // the same for the time that 99 of 100 repetitions did not exceed
  std::size_t samples = 0;
  double bus_gb_s = 0;  // collectives: bytes that each link carries a second, 10^9; 0: not a collective
};
void print(const Line& line);

}  // namespace tandem::bench
