#include "tandem/pipeline/stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/concurrency/bounded_queue.h"

namespace tandem::pipeline {
namespace {

using ::testing::HasSubstr;

Stage counts_to(const std::string& name, int end, std::string& log) {
  return {.name = name,
          .step =
              [&log, name, end, made = 0](const Limits&) mutable {
                if (made == end) return Progress::kEnded;
                ++made;
                log += name;
                return Progress::kMade;
              },
          .ended = [&log, name] { log += name + "."; }};
}

TEST(InlineStagesTest, StagesTakeTurnsInTheirOrderUntilAllHaveEnded) {
  std::string log;
  InlineStages stages({counts_to("a", 3, log), counts_to("b", 1, log)});
  while (stages.round() != Progress::kEnded) {
  }
  EXPECT_EQ(log, "abab.aa.");
}

// Makes one thing in each round where there is room for it.
Stage wants_room(const std::string& name, int& room, std::string& log) {
  return {.name = name, .step = [&log, &room, name](const Limits&) {
            if (room == 0) return Progress::kNone;
            --room;
            log += name;
            return Progress::kMade;
          }};
}

TEST(InlineStagesTest, OfThoseThatTakeTurnsWhoWasHeldUpFirstGoesFirstInTheNextRound) {
  for (const std::size_t first : {0, 2}) {
    std::string log;
    int room = 0;
    InlineStages stages({wants_room("a", room, log), wants_room("b", room, log), wants_room("c", room, log)},
                        {.count = 3, .first = first});
    for (const int more : {1, 1, 1, 2, 0, 2, 3, 1, 1, 0, 1}) {
      room += more;
      (void)stages.round();
      EXPECT_EQ(room, 0);
    }
    EXPECT_EQ(log, first == 0 ? "abcabcabcabca" : "cabcabcabcabc");
  }
}

TEST(InlineStagesTest, OthersKeepTheirPlacesAndWhoHasEndedIsPassedOver) {
  std::string log;
  int room = 0;
  InlineStages stages({counts_to("a", 1, log),
                       wants_room("b", room, log),
                       wants_room("c", room, log),
                       {.name = "makes room",
                        .step =
                            [&](const Limits&) {
                              ++room;
                              log += ' ';
                              return Progress::kMade;
                            }}},
                      {.count = 3});
  for (int round = 0; round < 5; ++round) (void)stages.round();
  EXPECT_EQ(log, "a ba. c b c ");
}

TEST(InlineStagesTest, SaysWhenNoStageCanGoOn) {
  InlineStages stages({{.name = "waits", .step = [](const Limits& limits) {
                          EXPECT_TRUE(limits.deadline.expired());
                          return Progress::kNone;
                        }}});
  EXPECT_EQ(stages.round(), Progress::kNone);
}

TEST(InlineStagesTest, AFailureCarriesTheStagesName) {
  InlineStages stages({{.name = "loader 1", .step = [](const Limits&) -> Progress { throw DataError("no rows"); }}});
  try {
    (void)stages.round();
    FAIL();
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "loader 1: no rows");
  }
}

// Waits in a queue that nobody fills.
Stage waits_in(const std::string& name, BoundedQueue<int>& queue) {
  return {.name = name, .step = [&queue](const Limits& limits) {
            (void)queue.pop(limits.stop, limits.deadline);
            return Progress::kNone;
          }};
}

TEST(StageThreadsTest, StagesRunUntilTheyHaveEnded) {
  std::string one, two;
  StageThreads threads({counts_to("a", 1000, one), counts_to("b", 3, two)});
  threads.join(Deadline::after(std::chrono::seconds(20)));
  EXPECT_EQ(one.size(), 1002u);
  EXPECT_EQ(two, "bbbb.");
}

TEST(StageThreadsTest, TheFirstFailureStopsTheOthersAndCarriesItsName) {
  BoundedQueue<int> queue(1);
  std::atomic<bool> fail{false};
  StageThreads threads({waits_in("learner", queue), {.name = "loader 0", .step = [&](const Limits&) {
                                                       if (fail) throw DataError("no rows");
                                                       return Progress::kNone;
                                                     }}});
  ASSERT_TRUE(eventually([&] { return queue.blocked_consumers() == 1; }));
  fail = true;
  try {
    threads.join(Deadline::after(std::chrono::seconds(20)));
    FAIL();
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "loader 0: no rows");
  }
  EXPECT_EQ(queue.blocked_consumers(), 0u);
}

TEST(StageThreadsTest, AStopEndsEveryWait) {
  BoundedQueue<int> queue(1);
  StageThreads threads({waits_in("a", queue), waits_in("b", queue)});
  ASSERT_TRUE(eventually([&] { return queue.blocked_consumers() == 2; }));
  threads.stop();
  threads.join(Deadline::after(std::chrono::seconds(20)));
}

// Sets `gone` when the thread of the stage has ended, and so has returned.
Stage tells_its_end(Stage stage, std::atomic<bool>& gone) {
  stage.step = [step = std::move(stage.step), &gone](const Limits& limits) {
    struct AtExit {
      ~AtExit() { gone = true; }
      std::atomic<bool>& gone;
    };
    thread_local const AtExit at_exit{gone};
    return step(limits);
  };
  return stage;
}

// What is stopped may have returned before its name is written down: here stop() itself waits for that.
TEST(StageThreadsTest, AJoinThatIsTooLateNamesThoseThatRunAndStopsThem) {
  BoundedQueue<int> queue(1);
  std::string log;
  std::atomic<bool> done{false}, gone{false};
  StageThreads threads({tells_its_end(counts_to("done", 1, log), done), tells_its_end(waits_in("stuck", queue), gone)});
  ASSERT_TRUE(eventually([&] { return done && queue.blocked_consumers() == 1; }));
  const std::stop_callback at_stop(threads.token(), [&] {
    queue.close();
    EXPECT_TRUE(eventually([&] { return gone.load(); }));
  });
  try {
    threads.join(Deadline::after(std::chrono::milliseconds(50)));
    FAIL();
  } catch (const DeadlineExceeded& error) {
    EXPECT_THAT(error.what(), HasSubstr("in time: stuck, and none can be ended from outside"));
  }
  EXPECT_TRUE(eventually([&] { return queue.blocked_consumers() == 0; }));
}

}  // namespace
}  // namespace tandem::pipeline
