#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tandem/rl/env/testing/tally.h"

namespace tandem::rl {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::HasSubstr;
using testing::refusal_of;
using testing::Tally;
using testing::Wrapped;

// Shows its action.
struct Arm {
  static Spec spec() {
    return {.id = "Arm-v0", .observation = {{.shape = {2}}}, .action = Box{.low = {-2, 1}, .high = {2, 4}}};
  }
  std::array<float, 2> reset(NumpyGenerator& /*random*/) { return {}; }
  StepResult<std::array<float, 2>> step(std::span<const float> action) { return {{action[0], action[1]}}; }
};

TEST(RescaleActionTest, BringsActionsToTheBounds) {
  Wrapped<Arm> arm({"rescale_action"}), unit({"rescale_action=0..1"});
  EXPECT_EQ(std::get<Box>(arm.group().spec().action), (Box{.low = {-1, -1}, .high = {1, 1}}));
  EXPECT_EQ(std::get<Box>(unit.group().spec().action), (Box{.low = {0, 0}, .high = {1, 1}}));
  arm.step_box({-1, -1});
  EXPECT_THAT(arm.seen(), ElementsAre(-2, FloatEq(1)));
  arm.step_box({1, 1});
  EXPECT_THAT(arm.seen(), ElementsAre(2, 4));
  arm.step_box({0.5, 0});
  EXPECT_THAT(arm.seen(), ElementsAre(1, 2.5F));
  unit.step_box({0.25, 1});
  EXPECT_THAT(unit.seen(), ElementsAre(-1, 4));
}

TEST(RescaleActionTest, WhatIsBeyondTheRangeIsCutAtTheBounds) {
  Wrapped<Arm> arm({"rescale_action"});
  arm.step_box({-1.5, 1.0000001F});
  EXPECT_THAT(arm.seen(), ElementsAre(-2, 4));
}

TEST(RescaleActionTest, AnActionThatIsNotFiniteIsTheEnvironmentsToName) {
  Wrapped<Arm> arm({"rescale_action"});
  EXPECT_THROW(arm.step_box({0, std::numeric_limits<float>::quiet_NaN()}), EnvError);
}

TEST(RescaleActionTest, OtherActionsAreRefused) {
  struct Free {
    static Spec spec() {
      return {.id = "Free-v0",
              .observation = {{}},
              .action = Box{.low = {0, -std::numeric_limits<double>::infinity()}, .high = {1, 2}}};
    }
    float reset(NumpyGenerator& /*random*/) { return 0; }
    StepResult<float> step(std::span<const float> /*action*/) { return {}; }
  };
  EXPECT_THAT(refusal_of<Tally>({"rescale_action"}), HasSubstr("are Discrete(5), no Box"));
  EXPECT_THAT(refusal_of<Free>({"rescale_action"}),
              HasSubstr("element 1 of the environment's actions is within -inf .. 2"));
  EXPECT_THAT(refusal_of<Arm>({"rescale_action=1..1"}), HasSubstr("LOW..HIGH"));
}

}  // namespace
}  // namespace tandem::rl
