// DD-PPO on two hosts whose cable is cut: the side that prevails goes on, with the bits of one process, and the other
// ends with 3; a cut that is mended in time is as if it had not been.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <deque>
#include <filesystem>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tandem/base/atomic_file.h"
#include "tandem/base/clock.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "tests/namespaces/two_hosts.h"
#include "tests/process/survivors.h"

namespace tandem::namespaces_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using process_test::Child;
using process_test::Command;
using process_test::Ended;
using process_test::summary_of;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kAllRanks = 4;
constexpr std::int64_t kSteps = 200'000;

process_test::Recipe recipe() { return process_test::with_steps(process_test::dd_ppo(), kSteps); }

class CutLinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (hosts.refusal()) GTEST_SKIP() << *hosts.refusal();
  }

  // The first `first` ranks on the first host, with the store, the others on the second.
  void start(int first, const std::vector<std::string>& more) {
    Command mine = process_test::training(recipe(), folder);
    mine.arguments.insert(mine.arguments.end(), more.begin(), more.end());
    ranks.clear();
    for (int rank = 0; rank < kAllRanks; ++rank) {
      mine.environment = {concat("RANK=", rank), concat("WORLD_SIZE=", kAllRanks),
                          concat("MASTER_ADDR=", TwoHosts::address(0)), "MASTER_PORT=29500"};
      mine.prepare = [this, host = rank < first ? 0 : 1] { hosts.enter(host); };
      ranks.emplace_back(mine);
    }
  }

  bool reaches_update(int updates) { return process_test::reaches_update(ranks.front(), folder, updates); }

  void expect_finished(std::size_t replicas) {
    const JsonValue summary = summary_of(folder);
    EXPECT_EQ(summary.at("end").as_string(), "finished");
    EXPECT_EQ(summary.at("state_sha256").as_string(), process_test::undisturbed_state(recipe()));
    EXPECT_EQ(summary.at("replicas").as_array().size(), replicas);
  }

  const TwoHosts hosts;
  const TemporaryFolder scratch;
  const fs::path folder = scratch / "run";
  std::deque<Child> ranks;
};

TEST_F(CutLinkTest, TheSideWithTheStoreAndMoreThanHalfOfTheRanksGoesOnWithTheSameBits) {
  start(3, {"--survivors", "take_over", "--deadline", "3"});
  ASSERT_TRUE(reaches_update(50));
  const Clock::time_point cut = Clock::now();
  hosts.cut();
  ASSERT_TRUE(process_test::says(ranks.front(), folder, "goes on after update", 1));
  std::cout << "goes on " << seconds_since(cut) << " s after the cut; the deadline is 3 s\n";
  for (int rank = 0; rank < 3; ++rank) {
    const Ended ended = ranks[static_cast<std::size_t>(rank)].wait();
    EXPECT_EQ(ended.exit_code, 0) << rank << ended.err;
  }
  expect_finished(3);
  EXPECT_THAT(process_test::log_of(folder), HasSubstr("rank 3 is lost (gave no sign of life"));
  const Ended lost = ranks[3].wait();
  EXPECT_EQ(lost.exit_code, 3);
  EXPECT_THAT(lost.err, HasSubstr("the store at 192.0.2.1:29500"));
}

// One side has the store, the other more than half of the ranks.
TEST_F(CutLinkTest, WithoutASideThatPrevailsAllEndAndTheRecordSaysWhy) {
  start(1, {"--survivors", "take_over", "--deadline", "3"});
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
TEST_F(CutLinkTest, ACutThatIsMendedBeforeTheDeadlineChangesNoBit) {
  constexpr unsigned kSeed = 4;
  std::mt19937 random(kSeed);
  for (const char* survivors : {"end", "take_over"}) {
    SCOPED_TRACE(survivors);
    fs::remove_all(folder);
    start(2, {"--survivors", survivors});
    for (int cut = 1; cut <= 3; ++cut) {
      ASSERT_TRUE(reaches_update(50 * cut));
      std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution(0, 50'000)(random)));
      hosts.cut();
      std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution(200, 2000)(random)));
      hosts.mend();
    }
    for (Child& rank : ranks) {
      const Ended ended = rank.wait();
      EXPECT_EQ(ended.exit_code, 0) << ended.err;
    }
    expect_finished(4);
    EXPECT_THAT(process_test::log_of(folder), Not(HasSubstr("is lost")));
  }
}

// As torchrun does: all are ended, and started again when the hosts reach each other.
TEST_F(CutLinkTest, RanksThatAreStartedAgainAfterACutGoOnFromTheLastCheckpointWithTheSameBits) {
  const std::vector<std::string> more{"--resume", "auto"};
  start(2, more);
  ASSERT_TRUE(reaches_update(250));  // a checkpoint is at 200
  hosts.cut();
  for (Child& rank : ranks) rank.signal(SIGKILL);
  for (Child& rank : ranks) (void)rank.wait();
  hosts.mend();
  start(2, more);
  for (Child& rank : ranks) {
    const Ended ended = rank.wait();
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
  }
  expect_finished(4);
  EXPECT_EQ(summary_of(folder).at("resumed").as_string(), "exactly");
}

}  // namespace
}  // namespace tandem::namespaces_test
