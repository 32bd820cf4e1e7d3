#include "tandem/concurrency/stall_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace tandem {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(StallWatchTest, NamesWhoIsStillInTheCallInWhichItWas) {
  CallMark first, second;
  StallWatch watch({{&first, "env group 0", 20ms}, {&second, "env group 1", 20ms}});
  const CallMark::Call inside = second.enter();
  EXPECT_EQ(watch.look(), "") << "it may just have begun";
  std::this_thread::sleep_for(25ms);
  const std::string late = watch.look();
  EXPECT_THAT(late, HasSubstr("env group 1 for 0."));
  EXPECT_THAT(late, HasSubstr("0.02 s are allowed"));
  EXPECT_THAT(late, Not(HasSubstr("env group 0")));
}

TEST(StallWatchTest, WhoRestsOrGoesOnIsNotLate) {
  CallMark resting, going_on;
  StallWatch watch({{&resting, "a", 10ms}, {&going_on, "b", 10ms}});
  { const CallMark::Call call = resting.enter(); }
  for (int i = 0; i < 5; ++i) {
    const CallMark::Call call = going_on.enter();
    EXPECT_EQ(watch.look(), "");
    std::this_thread::sleep_for(12ms);
  }
}

}  // namespace
}  // namespace tandem
