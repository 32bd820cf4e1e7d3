// DD-PPO on two hosts whose cable is cut: the side that prevails goes on, with the bits of one process, and the other
// ends with 3; a cut that is mended in time is as if it had not been.
#include "tests/namespaces/cut_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tandem/base/atomic_file.h"
#include "tandem/base/clock.h"
#include "tandem/base/text.h"
#include "tests/process/faults.h"

namespace tandem::namespaces_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using process_test::Child;
using process_test::Ended;
using process_test::summary_of;
using ::testing::AnyOf;
using ::testing::HasSubstr;

process_test::Recipe recipe() { return process_test::with_steps(process_test::dd_ppo(), 200'000); }
std::string state() { return process_test::undisturbed_state(recipe()); }

class CutLinkTest : public CutLink {};

// Three and one, and two and two, of which those with rank 0 go on.
TEST_F(CutLinkTest, TheSideWithTheStoreAndMostRanksGoesOnWithTheSameBits) {
  constexpr double kDeadline = 3;
  process_test::Dice dice(17);
  const std::string expected = state();
  for (const int first : {3, 2}) {
    SCOPED_TRACE(concat(first, " ranks with the store"));
    fs::remove_all(folder);
    start(recipe(), first, {"--survivors", "take_over", "--deadline", concat(kDeadline)});
    ASSERT_TRUE(reaches_update(1 + dice.below(100)));
    std::this_thread::sleep_for(dice.within(50ms));
    const Clock::time_point cut = Clock::now();
    hosts.cut();
    ASSERT_TRUE(process_test::says(ranks.front(), folder, process_test::kGoesOn, 1));
    ASSERT_TRUE(process_test::makes_an_update(ranks.front(), folder));
    EXPECT_LE(seconds_since(cut), kDeadline + process_test::to_go_on_within());
    for (int rank = 0; rank < first; ++rank) {
      const Ended ended = ranks[static_cast<std::size_t>(rank)].wait();
      EXPECT_EQ(ended.exit_code, 0) << rank << ended.err;
    }
    expect_finished(expected, static_cast<std::size_t>(first));
    EXPECT_THAT(process_test::log_of(folder), HasSubstr("rank 3 is lost (gave no sign of life"));
    for (int rank = first; rank < kAllRanks; ++rank) {
      const Ended lost = ranks[static_cast<std::size_t>(rank)].wait();
      EXPECT_EQ(lost.exit_code, 3) << rank << lost.err;
      EXPECT_THAT(lost.err, HasSubstr("the store at 192.0.2.1:29500"));
    }
    hosts.mend();
  }
}

// One side has the store, the other more than half of the ranks.
TEST_F(CutLinkTest, WithoutASideThatPrevailsAllEndAndTheRecordSaysWhy) {
  start(recipe(), 1, {"--survivors", "take_over", "--deadline", "3"});
  ASSERT_TRUE(reaches_update(50));
  hosts.cut();
  for (Child& rank : ranks) EXPECT_EQ(rank.wait().exit_code, 3);
  const JsonValue summary = summary_of(folder);
  EXPECT_EQ(summary.at("end").as_string(), "failed");
  EXPECT_THAT(summary.at("failure").as_string(),
              AnyOf(HasSubstr("nothing is known of rank(s) 1, 2, 3"), HasSubstr("the store at 192.0.2.1:29500")));
  EXPECT_THAT(read_file(folder / "status.json"), HasSubstr("\"state\":\"failed\""));
}

// At any instants, with survivors and without.
TEST_F(CutLinkTest, ACutThatIsMendedBeforeTheDeadlineChangesNoBit) { expect_to_wait_out(recipe(), 3, 4); }

// As torchrun does: all are ended, and started again when the hosts reach each other.
TEST_F(CutLinkTest, RanksThatAreStartedAgainAfterACutGoOnFromTheLastCheckpointWithTheSameBits) {
  const std::vector<std::string> more{"--resume", "auto"};
  start(recipe(), 2, more);
  ASSERT_TRUE(reaches_update(250));  // a checkpoint is at 200
  hosts.cut();
  for (Child& rank : ranks) rank.signal(SIGKILL);
  for (Child& rank : ranks) (void)rank.wait();
  hosts.mend();
  start(recipe(), 2, more);
  for (Child& rank : ranks) {
    const Ended ended = rank.wait();
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
  }
  expect_finished(state(), 4);
  EXPECT_EQ(summary_of(folder).at("resumed").as_string(), "exactly");
}

}  // namespace
}  // namespace tandem::namespaces_test
