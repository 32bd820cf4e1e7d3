#include "tandem/rl/rollout/step_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace tandem::rl {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(StepWatchTest, NamesTheGroupThatIsStillInTheStepInWhichItWas) {
  StepMark first, second;
  StepWatch watch({{&first, name_of_group("Slow-v0", 0, 1)}, {&second, name_of_group("Slow-v0", 1, 1)}}, 20ms,
                  "its option");
  const StepMark::Step inside = second.enter();
  EXPECT_EQ(watch.look(), "") << "it may just have begun";
  std::this_thread::sleep_for(25ms);
  const std::string late = watch.look();
  EXPECT_THAT(late, HasSubstr("in one step: env group 1 (Slow-v0, environment 1) for 0."));
  EXPECT_THAT(late, HasSubstr("0.02 s are allowed (its option)"));
  EXPECT_THAT(late, Not(HasSubstr("env group 0")));
}

TEST(StepWatchTest, GroupsThatRestOrStepOnAreNotLate) {
  StepMark resting, stepping;
  StepWatch watch({{&resting, "a"}, {&stepping, "b"}}, 10ms, "");
  { const StepMark::Step step = resting.enter(); }
  for (int i = 0; i < 5; ++i) {
    const StepMark::Step step = stepping.enter();
    EXPECT_EQ(watch.look(), "");
    std::this_thread::sleep_for(12ms);
  }
}

TEST(StepWatchTest, AGroupIsNamedByItsEnvironments) {
  EXPECT_EQ(name_of_group("CartPole-v1", 3, 4), "env group 3 (CartPole-v1, environments 12 to 15)");
}

}  // namespace
}  // namespace tandem::rl
