// Thirty cuts of the cable between two hosts, at any instants of a DD-PPO training without survivors: shorter ones are
// waited out; after longer ones its launcher ends all ranks and starts them again, from the last checkpoint. The run
// ends with the bits of one that nobody disturbed. The seeds are fixed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <deque>
#include <iostream>
#include <string>
#include <thread>

#include "tandem/base/clock.h"
#include "tandem/base/text.h"
#include "tests/namespaces/cut_link.h"
#include "tests/process/faults.h"

namespace tandem::namespaces_test {
namespace {

using namespace std::chrono_literals;
using process_test::Child;
using process_test::Command;
using process_test::Ended;

constexpr int kLongCuts = 30;
constexpr Clock::duration kHostDeadline = 1s, kAgentGrace = 300ms;  // of the launcher

// What torchrun does over two hosts: it hosts the store, on the first of them. When a host was not reached until the
// deadline the ranks of both are asked to end, and killed after the grace; then all are started again.
class RestartedRanks {
 public:
  RestartedRanks(const TwoHosts& hosts, Command command)
      : hosts_(hosts), command_(std::move(command)), store_(store_on_first(hosts)) {}

  // So many ranks on the first host, the others on the second.
  void start(int first) {
    ranks_.clear();
    for (int rank = 0; rank < kAllRanks; ++rank) {
      const int of_host = rank < first ? first : kAllRanks - first;
      Command mine = command_;
      mine.environment = {"TORCHELASTIC_RUN_ID=cuts", "TORCHELASTIC_USE_AGENT_STORE=True",
                          concat("TORCHELASTIC_RESTART_COUNT=", starts_), concat("LOCAL_WORLD_SIZE=", of_host)};
      ranks_.emplace_back(as_rank(hosts_, mine, rank, first, store_.place.endpoint.port));
    }
    ++starts_;
  }

  [[nodiscard]] Child& first() { return ranks_.front(); }

  // How many had to be killed. None may have ended well.
  int end() {
    for (Child& rank : ranks_) rank.signal(SIGTERM);
    const Deadline grace = Deadline::after(kAgentGrace);
    while (is_any_running() && !grace.expired()) std::this_thread::sleep_for(1ms);
    int killed = 0;
    for (Child& rank : ranks_) {
      rank.signal(SIGKILL);
      const Ended ended = rank.wait();
      EXPECT_NE(ended.exit_code, 0) << "it ended before all cuts; give it more steps";
      killed += ended.signal == SIGKILL ? 1 : 0;
    }
    return killed;
  }

  void expect_success() {
    for (Child& rank : ranks_) {
      const Ended ended = rank.wait();
      EXPECT_EQ(ended.exit_code, 0) << ended.err;
    }
  }

 private:
  bool is_any_running() {
    return std::ranges::any_of(ranks_, [](Child& rank) { return rank.is_running(); });
  }

  const TwoHosts& hosts_;
  const Command command_;
  const comm::HostedStore store_;
  int starts_ = 0;
  std::deque<Child> ranks_;
};

class LongThirtyRestartsTest : public CutLink {};

// With survivors and without, nobody is lost.
TEST_F(LongThirtyRestartsTest, CutsThatAreMendedBeforeTheDeadlineChangeNoBit) {
  expect_to_wait_out(process_test::with_steps(process_test::dd_ppo(), 400'000), kLongCuts, 15);
}

// Every other cut comes while the ranks start, meet, or load.
TEST_F(LongThirtyRestartsTest, CutsBeyondTheDeadlineAreResumedWithTheSameBits) {
  constexpr unsigned kSeed = 16;
  process_test::Dice dice(kSeed);
  const process_test::Recipe recipe = process_test::small_dd_ppo(2'000'000);
  Command command = process_test::training(recipe, folder);
  std::ranges::replace(command.arguments, "checkpoint.every_updates=200", "checkpoint.every_updates=20");
  command.arguments.insert(command.arguments.end(), {"--resume", "auto"});
  RestartedRanks restarted(hosts, command);
  int killed = 0;
  for (int cut = 1; cut <= kLongCuts; ++cut) {
    const bool is_of_start = cut % 2 == 0;
    const auto instant = dice.within(is_of_start ? 1500ms : 50ms), beyond = dice.within(2s);
    const int progress = 1 + dice.below(60), first = 1 + dice.below(kAllRanks - 1);
    SCOPED_TRACE(
        concat("cut ", cut, " of seed ", kSeed, ": after ", instant.count(), " us, ", first, " ranks with the store"));
    const std::int64_t made = process_test::updates_in(folder);
    restarted.start(first);
    if (!is_of_start) {
      ASSERT_TRUE(process_test::reaches_update(restarted.first(), folder, made + progress));
    }
    std::this_thread::sleep_for(instant);
    hosts.cut();
    std::this_thread::sleep_for(kHostDeadline);
    killed += restarted.end();
    std::this_thread::sleep_for(beyond);
    hosts.mend();
  }
  std::cout << killed << " ranks had to be killed; " << process_test::updates_in(folder) << " updates were made\n";
  EXPECT_LT(process_test::updates_in(folder), recipe.steps / recipe.rows);
  restarted.start(2);
  restarted.expect_success();
  expect_finished(process_test::undisturbed_state(recipe), kAllRanks);
  EXPECT_EQ(process_test::summary_of(folder).at("resumed").as_string(), "exactly");
  // Those that train wait for whom they cannot reach, and hear no signal between two updates.
  EXPECT_GE(killed, kLongCuts / 2 * kAllRanks / 2) << "hardly any of the cuts was one";
}

}  // namespace
}  // namespace tandem::namespaces_test
