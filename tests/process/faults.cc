#include "faults.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <thread>

#include "tandem/base/testing/address_sanitizer.h"
#include "tandem/base/text.h"

namespace tandem::process_test {
namespace {

#ifdef TANDEM_ADDRESS_SANITIZER
constexpr double kSlowness = 4;
#else
constexpr double kSlowness = 1;
#endif

}  // namespace

double to_go_on_within() { return 5 * kSlowness; }
double to_join_within() { return 10 * kSlowness; }

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
  Loss loss{.recorded = before, .signalled = Clock::now(), .went_on = {}};
  if (!signal_rank(launcher, rank, signal)) return std::nullopt;
  const std::int64_t recorded = updates_in(folder);
  if (count_in(log_of(folder), kGoesOn) == rounds) loss.recorded = recorded;  // else these may be of the next round
  if (!says(launcher, folder, kGoesOn, rounds + 1) || !makes_an_update(launcher, folder)) return std::nullopt;
  loss.went_on = Clock::now();
  return loss;
}

bool makes_an_update(Child& child, const std::filesystem::path& folder) {
  const std::int64_t first = went_on_after(folder) + 1;
  const Deadline deadline = Deadline::after(kPatience);
  for (bool is_running = true; is_running && !deadline.expired();) {
    is_running = child.is_running();
    if (updates_in(folder) >= first) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

// The line that names it comes before the last one of its round.
std::optional<double> join(Child& launcher, const std::filesystem::path& folder, int times, Clock::time_point since) {
  const std::string words = " has joined, started again ";
  if (!says(launcher, folder, words, times)) return std::nullopt;
  const std::string log = log_of(folder);
  const std::string before = log.substr(0, log.rfind(words));
  if (!says(launcher, folder, kGoesOn, count_in(before, kGoesOn) + 1) || !makes_an_update(launcher, folder))
    return std::nullopt;
  return seconds_since(since);
}

}  // namespace tandem::process_test
