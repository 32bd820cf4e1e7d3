// Thirty cuts of the cable between two hosts, at any instants of a DD-PPO training and mended later, some of which cost
// ranks, which are replaced. The run ends with the bits of one that nobody disturbed. The seed is fixed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tandem/base/clock.h"
#include "tandem/base/text.h"
#include "tandem/comm/store/run_store.h"
#include "tests/namespaces/cut_link.h"
#include "tests/process/faults.h"

namespace tandem::namespaces_test {
namespace {

using namespace std::chrono_literals;
using process_test::Child;
using process_test::Command;
using process_test::Ended;
using process_test::summary_of;

constexpr int kCuts = 30;
constexpr double kDeadline = 2;

// What a launcher over several hosts does: it hosts the store, on the first of them, and starts ranks again.
class TendedRanks {
 public:
  // `with_store`: ranks of the first host.
  TendedRanks(const TwoHosts& hosts, int with_store, Command command)
      : hosts_(hosts), with_store_(with_store), command_(std::move(command)), store_(store_on_first(hosts)) {
    for (int rank = 0; rank < kAllRanks; ++rank) start(rank);
  }

  // Starts again who has ended: with 3, as one that the others went on without. How many.
  int tend() {
    int count = 0;
    for (int rank = 0; rank < kAllRanks; ++rank) {
      Seat& seat = seats_.at(static_cast<std::size_t>(rank));
      if (seat.process->is_running()) continue;
      const Ended ended = seat.process->wait();
      EXPECT_EQ(ended.exit_code, 3) << "rank " << rank << ": " << ended.err;
      EXPECT_GE(rank, with_store_) << ended.err;
      ++seat.restarts;
      start(rank);
      ++count;
    }
    return count;
  }

  [[nodiscard]] Child& first() { return *seats_.front().process; }
  void expect_stopped() {
    for (Seat& seat : seats_) {
      const Ended ended = seat.process->wait();
      EXPECT_EQ(ended.exit_code, 130) << ended.err;
    }
  }

 private:
  struct Seat {
    std::unique_ptr<Child> process;
    int restarts = 0;
  };

  void start(int rank) {
    Seat& seat = seats_.at(static_cast<std::size_t>(rank));
    Command mine = command_;
    mine.environment = {"TANDEM_RUN_ID=cuts", "TANDEM_ON_DEATH=continue",
                        concat("TANDEM_RANK_RESTARTS=", seat.restarts)};
    mine = as_rank(hosts_, mine, rank, with_store_, store_.place.endpoint.port);
    seat.process = std::make_unique<Child>(mine);
  }

  const TwoHosts& hosts_;
  const int with_store_;
  const Command command_;
  const comm::HostedStore store_;
  std::array<Seat, kAllRanks> seats_;
};

class LongThirtyCutsTest : public CutLink, public ::testing::WithParamInterface<int> {
 protected:
  int rounds() const { return process_test::count_in(process_test::log_of(folder), process_test::kGoesOn); }

  bool all_are_in() const {
    const std::vector<int> members = process_test::newest_members(folder);
    return members.empty() || members.size() == kAllRanks;
  }
};

// Shorter and longer than the deadline. Two ranks that go on alone are much faster than four across the cable, so the
// run has no end: it is stopped after the last cut, when CartPole is solved for long.
TEST_P(LongThirtyCutsTest, WithSurvivorsAndReplacementsCartPoleIsSolved) {
  const int with_store = GetParam();
  const unsigned seed = 12 + static_cast<unsigned>(with_store);
  process_test::Dice dice(seed);
  const process_test::Recipe recipe =
      process_test::with_setting(process_test::solving_dd_ppo(100'000'000), "ppo.learning_rate_schedule=constant");
  Command command = process_test::training(recipe, folder);
  command.arguments.insert(command.arguments.end(), {"--survivors", "take_over", "--deadline", concat(kDeadline)});
  TendedRanks tended(hosts, with_store, command);
  ASSERT_TRUE(process_test::reaches_update(tended.first(), folder, 5));
  int lost = 0;
  process_test::Times to_go_on, to_join;
  for (int cut = 1; cut <= kCuts; ++cut) {
    const auto instant = dice.within(200ms), length = dice.between(100ms, 6s);
    SCOPED_TRACE(
        concat("cut ", cut, " of seed ", seed, ": after ", instant.count(), " us for ", length.count(), " us\n"));
    std::this_thread::sleep_for(instant);
    ASSERT_TRUE(tended.first().is_running());
    const int before = rounds();
    const Clock::time_point start = Clock::now();
    hosts.cut();
    for (bool has_gone_on = false; Clock::now() < start + length; std::this_thread::sleep_for(5ms)) {
      if (has_gone_on || rounds() == before) continue;
      if (process_test::updates_in(folder) <= process_test::went_on_after(folder)) continue;
      has_gone_on = true;
      to_go_on.add(seconds_since(start));
    }
    hosts.mend();
    // Those that lost the others end by themselves, now or when they reach the store.
    const std::int64_t updates = process_test::updates_in(folder);
    const Deadline patience = Deadline::after(60s);
    Clock::time_point mended = Clock::now();
    bool is_any_lost = false;
    while (process_test::updates_in(folder) < updates + 5 || !all_are_in()) {
      ASSERT_TRUE(tended.first().is_running());
      if (const int again = tended.tend(); again > 0) {
        lost += again;
        is_any_lost = true;
        mended = Clock::now();
      }
      ASSERT_FALSE(patience.expired()) << "\n" << process_test::log_of(folder);
      std::this_thread::sleep_for(5ms);
    }
    if (is_any_lost) to_join.add(seconds_since(mended));
  }
  std::cout << lost << " ranks were lost; the deadline is " << kDeadline << " s\n";
  to_go_on.report("to go on after a cut");
  to_join.report("to join after a cut");
  EXPECT_LE(to_go_on.longest(), kDeadline + process_test::to_go_on_within());
  EXPECT_LE(to_join.longest(), process_test::to_join_within());
  tended.first().signal(SIGTERM);
  tended.expect_stopped();
  const JsonValue summary = summary_of(folder);
  EXPECT_EQ(summary.at("end").as_string(), "stopped");
  EXPECT_FALSE(summary.at("solved_at_env_steps").is_null());
  process_test::expect_line_for_every_update(folder);
  const std::int64_t steps = summary.at("env_steps").as_int64();
  EXPECT_EQ(summary.at("state_sha256").as_string(),
            process_test::undisturbed_state(process_test::with_steps(recipe, steps)));
  EXPECT_GE(lost, kCuts / 2 * (kAllRanks - with_store) / 2) << "hardly any of the cuts was one";
}

// With half of the ranks, and the first of them; with most.
INSTANTIATE_TEST_SUITE_P(LongRanksWithTheStore, LongThirtyCutsTest, ::testing::Values(2, 3));

}  // namespace
}  // namespace tandem::namespaces_test
