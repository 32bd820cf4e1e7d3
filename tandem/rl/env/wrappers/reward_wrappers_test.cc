#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/rl/env/testing/tally.h"

namespace tandem::rl {
namespace {

using ::testing::HasSubstr;
using testing::refusal_of;
using testing::Tally;
using testing::Wrapped;

TEST(RewardWrappersTest, ScaleMultipliesRewardsAndTheThreshold) {
  Wrapped<Tally> tally({"reward_scale=0.5"});
  tally.step(2);
  EXPECT_EQ(tally.reward(), 6);
  tally.step(3);
  EXPECT_EQ(tally.reward(), -11.5);
  EXPECT_EQ(tally.group().spec().reward_threshold, 25);
}

TEST(RewardWrappersTest, ClipCutsAtBothEnds) {
  Wrapped<Tally> both({"reward_clip=12"}), range({"reward_clip=-1..11.5"});
  both.step(0), range.step(0);
  EXPECT_EQ(both.reward(), 10);
  EXPECT_EQ(range.reward(), 10);
  both.step(2), range.step(2);
  EXPECT_EQ(both.reward(), 12);
  EXPECT_EQ(range.reward(), 11.5);
  both.step(3), range.step(3);
  EXPECT_EQ(both.reward(), -12);
  EXPECT_EQ(range.reward(), -1);
  EXPECT_EQ(both.group().spec().reward_threshold, std::nullopt);
}

struct Signs {
  static Spec spec() { return {.id = "Signs-v0", .observation = {{}}, .action = Discrete{3}}; }
  float reset(NumpyGenerator& /*random*/) { return 0; }
  StepResult<float> step(std::int64_t action) { return {0, 0.25 * static_cast<double>(action - 1)}; }
};

TEST(RewardWrappersTest, SignOfNothingIsZero) {
  Wrapped<Signs> signs({"reward_clip=sign"});
  for (const std::int64_t action : {0, 1, 2}) {
    signs.step(action);
    EXPECT_EQ(signs.reward(), static_cast<double>(action - 1));
  }
}

TEST(RewardWrappersTest, TheReturnOfBeforeStandsBehindTheEnvironmentsOwnMetrics) {
  Wrapped<Tally> tally({"reward_clip=1", "reward_scale=4"}, 2);
  ASSERT_EQ(tally.group().spec().metrics.size(), 2U);  // the second wrapper adds none
  EXPECT_EQ(tally.group().spec().metrics[1].name, "unwrapped_return");
  tally.step({0, 1});
  tally.step({4, 1});
  EXPECT_TRUE(tally.terminated(0));
  EXPECT_EQ(tally.buffers().metrics(0)[0], 2);
  EXPECT_EQ(tally.buffers().metrics(0)[1], 10 + 24);
  tally.step({4, 4});
  EXPECT_EQ(tally.buffers().metrics(0)[1], 14) << "the sum begins anew with an episode";
  EXPECT_EQ(tally.buffers().metrics(1)[1], 11 + 21 + 34);
  EXPECT_EQ(tally.reward(1), 4);
}

TEST(RewardWrappersTest, AnInfiniteProductIsAFaultOfTheEnvironment) {
  struct Huge {
    static Spec spec() { return {.id = "Huge-v0", .observation = {{}}, .action = Discrete{1}}; }
    float reset(NumpyGenerator& /*random*/) { return 0; }
    StepResult<float> step(std::int64_t /*action*/) { return {0, 1e305}; }
  };
  Wrapped<Huge> huge({"reward_scale=1e6"});
  EXPECT_THROW(huge.step(0), EnvError);
}

TEST(RewardWrappersTest, ValuesOutOfBoundsAreRefused) {
  EXPECT_THAT(refusal_of<Tally>({"reward_scale=0"}), HasSubstr("not 0"));
  EXPECT_THAT(refusal_of<Tally>({"reward_scale=nan"}), HasSubstr("from -1e+09 to 1e+09"));
  EXPECT_THAT(refusal_of<Tally>({"reward_clip=-1"}), HasSubstr("above 0"));
  EXPECT_THAT(refusal_of<Tally>({"reward_clip=2..1"}), HasSubstr("the lower one first"));
  EXPECT_THAT(refusal_of<Tally>({"reward_clip"}), HasSubstr("above 0"));
}

}  // namespace
}  // namespace tandem::rl
