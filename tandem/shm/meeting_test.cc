#include "tandem/shm/meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/testing/within.h"
#include "tandem/shm/socket.h"
#include "tandem/shm/testing/process_world.h"

namespace tandem::shm {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

MeetingOptions options(int rank, int size, const std::string& key, Clock::duration patience = 60s) {
  return {.rank = rank, .size = size, .key = key, .limits = within(patience)};
}

std::string abstract_sockets() {
  std::ifstream in("/proc/net/unix");
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

TEST(MeetingTest, EveryRankMapsTheSameMemoryAndKnowsAllOthers) {
  const std::string key = unique_key("meet");
  ProcessWorld world(4, [&](int rank, const Voice& voice) {
    const Meeting meeting = meet(options(rank, 4, key));
    const std::atomic<bool> never{false};
    TANDEM_CHECK(meeting.rank == rank && meeting.region->control().size == 4);
    for (int each = 0; each < 4; ++each) {
      TANDEM_CHECK(meeting.region->control().rank(each).process > 0);
      TANDEM_CHECK(meeting.lifelines[static_cast<std::size_t>(each)].is_open() == (each != rank));
    }
    TANDEM_CHECK(meeting.region->control().rank(rank).process == ::getpid());
    meeting.region->control().rank(rank).posted.advance();
    for (int each = 0; each < 4; ++each) {
      TANDEM_CHECK(meeting.region->control().rank(each).posted.sleep(1, Deadline::after(60s), never) ==
                   SharedCounter::Outcome::kReached);
    }
    voice.say("met");
  });
  EXPECT_THAT(world.outcomes(), Each("met"));
  EXPECT_THAT(abstract_sockets(), Not(HasSubstr(key)));
}

TEST(MeetingTest, MissingRanksAreNamedOnAllWhoCame) {
  const std::string key = unique_key("missing");
  ProcessWorld world(2, [&](int rank, const Voice&) { (void)meet(options(rank, 4, key, rank == 0 ? 2s : 60s)); });
  EXPECT_THAT(world.outcomes(), Each(HasSubstr("deadline passed while waiting for rank 2, 3 of 4")));
  EXPECT_THAT(abstract_sockets(), Not(HasSubstr(key)));
}

TEST(MeetingTest, AMissingRankZeroIsSaid) {
  const std::string key = unique_key("no-zero");
  EXPECT_THROW(
      {
        try {
          (void)meet(options(1, 2, key, 20ms));
        } catch (const DeadlineExceeded& error) {
          EXPECT_THAT(error.what(), AllOf(HasSubstr(key), HasSubstr("rank 0 has not come")));
          throw;
        }
      },
      DeadlineExceeded);
}

TEST(MeetingTest, ARankThatComesTwiceFailsAll) {
  const std::string key = unique_key("twice");
  ProcessWorld world(3, [&](int rank, const Voice&) { (void)meet(options(rank == 2 ? 1 : rank, 3, key)); });
  EXPECT_THAT(world.outcomes(), Each(AllOf(HasSubstr("rank 1"), HasSubstr("came as that rank already"))));
}

TEST(MeetingTest, RanksThatDisagreeAboutTheSizeFail) {
  const std::string key = unique_key("sizes");
  ProcessWorld world(2, [&](int rank, const Voice&) { (void)meet(options(rank, 2 + rank, key)); });
  EXPECT_THAT(world.outcomes(), Each(HasSubstr("it says that there are 3 ranks, and rank 0 that there are 2")));
}

TEST(MeetingTest, AKeyInUseIsRefused) {
  const std::string key = unique_key("used");
  const Descriptor squatter = listen_at(concat("tandem/", key), 1);
  try {
    (void)meet(options(0, 2, key));
    FAIL();
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(key), HasSubstr("another process already gathers")));
  }
}

TEST(MeetingTest, ARankThatDiesWhileOthersAreMissingIsNamed) {
  const std::string key = unique_key("dies");
  ProcessWorld world(3, [&](int rank, const Voice& voice) {
    if (rank == 2) return;
    MeetingOptions mine = options(rank, 3, key);
    if (rank == 1) {
      // Dies when it has said who it is: rank 0 listens already.
      const Descriptor other = connect_to(concat("tandem/", key), mine.limits);
      mine.limits.deadline = Deadline::after(2s);
      try {
        (void)meet(mine);
      } catch (const DeadlineExceeded&) {
        voice.say("waited");
        ::raise(SIGKILL);
      }
    }
    (void)meet(mine);
  });
  EXPECT_THAT(world.outcome(1), HasSubstr("waited"));
  EXPECT_THAT(world.outcome(0), AllOf(HasSubstr("rank 1 ended before all ranks were there"), HasSubstr("missing: 2")));
}

TEST(MeetingTest, AStopRequestEndsTheWait) {
  const std::string key = unique_key("stop");
  std::stop_source stop;
  stop.request_stop();
  MeetingOptions zero = options(0, 2, key), one = options(1, 2, key);
  zero.limits.stop = one.limits.stop = stop.get_token();
  EXPECT_THROW((void)meet(zero), GroupAborted);
  EXPECT_THROW((void)meet(one), GroupAborted);
}

TEST(MeetingTest, StrangersAreIgnored) {
  const std::string key = unique_key("stranger");
  ProcessWorld world(2, [&](int rank, const Voice& voice) {
    if (rank == 1) {
      const Descriptor silent = connect_to(concat("tandem/", key), options(1, 2, key).limits);
      const Descriptor loud = connect_to(concat("tandem/", key), options(1, 2, key).limits);
      TANDEM_CHECK(send(loud, std::as_bytes(std::span("hello", 5)), {}));
      const Meeting meeting = meet(options(rank, 2, key));
      return voice.say("met");
    }
    const Meeting meeting = meet(options(rank, 2, key));
    voice.say("met");
  });
  EXPECT_THAT(world.outcomes(), Each("met"));
}

TEST(MeetingTest, ImpossibleOptionsAreReportedTogether) {
  try {
    (void)meet(options(-1, 251, ""));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.faults().size(), 3U);
  }
}

TEST(MeetingTest, ShortageOfMemoryIsSaid) {
  arm_fault({.point = "shm.back", .passage = 1, .kind = FaultKind::kNoSpace});
  try {
    (void)meet(options(0, 1, unique_key("shortage")));
    FAIL();
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("MiB more are needed"), HasSubstr("MiB are free")));
  }
}

}  // namespace
}  // namespace tandem::shm
