// Thirty cuts of the cable between two hosts, at any instants of a DD-PPO training and mended later, some of which cost
// ranks, which are replaced. The run ends with the bits of one that nobody disturbed. The seed is fixed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <future>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tandem/base/clock.h"
#include "tandem/base/text.h"
#include "tandem/comm/tcp_store.h"
#include "tests/namespaces/cut_link.h"

namespace tandem::namespaces_test {
namespace {

using namespace std::chrono_literals;
using process_test::Child;
using process_test::Command;
using process_test::Ended;
using process_test::summary_of;

constexpr int kCuts = 30;
constexpr int kWithStore = 2;  // ranks of the first host

// What a launcher over several hosts does: it hosts the store, on the first of them, and starts ranks again.
class TendedRanks {
 public:
  TendedRanks(const TwoHosts& hosts, Command command)
      : hosts_(hosts), command_(std::move(command)), store_(std::async(std::launch::async, [&hosts] {
                                                              hosts.enter(0);
                                                              return comm::host_store(0, comm::Reach::kEverywhere);
                                                            }).get()) {
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
      EXPECT_GE(rank, kWithStore) << ended.err;
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
    mine.environment = {concat("RANK=", rank),
                        concat("LOCAL_RANK=", rank % kWithStore),
                        concat("WORLD_SIZE=", kAllRanks),
                        concat("MASTER_ADDR=", TwoHosts::address(0)),
                        concat("MASTER_PORT=", store_.port),
                        "TANDEM_RUN_ID=cuts",
                        "TANDEM_ON_DEATH=continue",
                        concat("TANDEM_RANK_RESTARTS=", seat.restarts)};
    mine.prepare = [this, host = rank < kWithStore ? 0 : 1] { hosts_.enter(host); };
    seat.process = std::make_unique<Child>(mine);
  }

  const TwoHosts& hosts_;
  const Command command_;
  const comm::HostedStore store_;
  std::array<Seat, kAllRanks> seats_;
};

class LongThirtyCutsTest : public CutLink {
 protected:
  int rounds() const { return process_test::count_in(process_test::log_of(folder), "goes on after update"); }

  // Whether all ranks are in the newest round: "the run goes on with rank(s) 0, 1, 2, 3 of 4".
  bool all_are_in() const {
    const std::string log = process_test::log_of(folder), words = "the run goes on with rank(s) ";
    const std::size_t at = log.rfind(words);
    if (at == std::string::npos) return true;
    const std::string members = log.substr(at + words.size(), log.find(" of ", at) - at - words.size());
    return std::count(members.begin(), members.end(), ',') == kAllRanks - 1;
  }
};

// Shorter and longer than the deadline. Two ranks that go on alone are much faster than four across the cable, so the
// run has no end: it is stopped after the last cut, when CartPole is solved for long.
TEST_F(LongThirtyCutsTest, WithSurvivorsAndReplacementsCartPoleIsSolved) {
  constexpr unsigned kSeed = 14;
  constexpr double kDeadline = 2, kToGoOn = 5, kToJoin = 10;  // seconds
  std::mt19937 random(kSeed);
  const auto draw = [&](int least, int most) { return std::uniform_int_distribution(least, most)(random); };
  const process_test::Recipe recipe =
      process_test::with_setting(process_test::solving_dd_ppo(100'000'000), "ppo.learning_rate_schedule=constant");
  Command command = process_test::training(recipe, folder);
  command.arguments.insert(command.arguments.end(), {"--survivors", "take_over", "--deadline", concat(kDeadline)});
  TendedRanks tended(hosts, command);
  ASSERT_TRUE(process_test::reaches_update(tended.first(), folder, 5));
  int lost = 0;
  double longest = 0, longest_join = 0;
  for (int cut = 1; cut <= kCuts; ++cut) {
    const auto instant = std::chrono::microseconds(draw(0, 200'000));
    const auto length = std::chrono::milliseconds(draw(100, 6000));
    SCOPED_TRACE(
        concat("cut ", cut, " of seed ", kSeed, ": after ", instant.count(), " us for ", length.count(), " ms\n"));
    std::this_thread::sleep_for(instant);
    ASSERT_TRUE(tended.first().is_running());
    const int before = rounds();
    const Clock::time_point start = Clock::now();
    hosts.cut();
    for (bool has_gone_on = false; Clock::now() < start + length; std::this_thread::sleep_for(5ms)) {
      if (has_gone_on || rounds() == before) continue;
      has_gone_on = true;
      longest = std::max(longest, seconds_since(start));
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
    if (is_any_lost) longest_join = std::max(longest_join, seconds_since(mended));
  }
  std::cout << lost << " ranks were lost; with a deadline of " << kDeadline << " s it goes on after " << longest
            << " s at most, a joiner is in after " << longest_join << " s at most\n";
  tended.first().signal(SIGTERM);
  tended.expect_stopped();
  const JsonValue summary = summary_of(folder);
  EXPECT_EQ(summary.at("end").as_string(), "stopped");
  EXPECT_FALSE(summary.at("solved_at_env_steps").is_null());
  process_test::expect_line_for_every_update(folder);
  const std::int64_t steps = summary.at("env_steps").as_int64();
  EXPECT_EQ(summary.at("state_sha256").as_string(),
            process_test::undisturbed_state(process_test::with_steps(recipe, steps)));
  EXPECT_GE(lost, kCuts / 2) << "hardly any of the cuts was one";
  EXPECT_LE(longest, kDeadline + kToGoOn);
  EXPECT_LE(longest_join, kToJoin);
}

}  // namespace
}  // namespace tandem::namespaces_test
