#include "faults.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "tandem/base/clock.h"
#include "tandem/base/text.h"

namespace tandem::process_test {

void Times::add(double seconds) {
  longest_ = std::max(longest_, seconds);
  sum_ += seconds;
  ++count_;
}

void Times::report(const std::string& what) const {
  const double mean = count_ > 0 ? sum_ / count_ : 0;
  std::cout << concat(what, ": ", count_, " times, ", longest_, " s at most, ", mean, " s in the mean\n");
  std::string name = what;
  std::ranges::replace(name, ' ', '_');
  ::testing::Test::RecordProperty(name + "_longest_s", concat(longest_));
  ::testing::Test::RecordProperty(name + "_mean_s", concat(mean));
}

std::optional<Loss> lose_rank(Child& launcher, const std::filesystem::path& folder, int rank, int signal) {
  const int rounds = count_in(log_of(folder), kGoesOn);
  const std::int64_t before = updates_in(folder);
  const Clock::time_point start = Clock::now();
  if (!signal_rank(launcher, rank, signal)) return std::nullopt;
  Loss loss{.recorded = updates_in(folder)};
  if (count_in(log_of(folder), kGoesOn) > rounds) loss.recorded = before;  // these may be lines of the next round
  if (!says(launcher, folder, kGoesOn, rounds + 1)) return std::nullopt;
  loss.seconds = seconds_since(start);
  return loss;
}

}  // namespace tandem::process_test
