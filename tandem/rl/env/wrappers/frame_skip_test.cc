#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/rl/env/testing/tally.h"

namespace tandem::rl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Pictures;
using testing::refusal_of;
using testing::Tally;
using testing::Wrapped;

TEST(FrameSkipTest, SumsTheRewardsOfItsFrames) {
  Wrapped<Tally> tally({"frame_skip=3"});
  tally.step(1);
  EXPECT_EQ(tally.reward(), 11 + 21 + 31);
  EXPECT_THAT(tally.seen(), ElementsAre(0, 3, 1));
  EXPECT_EQ(tally.group().spec().max_episode_steps, 34) << "100 frames";
}

// Environments whose episode ended rest until the others have made their frames.
TEST(FrameSkipTest, StopsAtTheEndOfAnEpisode) {
  Wrapped<Tally> tally({"frame_skip=3"}, 3);
  tally.step({1, 4, 0});
  EXPECT_EQ(tally.reward(0), 11 + 21 + 31);
  EXPECT_TRUE(tally.terminated(1));
  EXPECT_EQ(tally.reward(1), 14);
  EXPECT_THAT(tally.last_seen(1), ElementsAre(0, 1, 4));
  EXPECT_THAT(tally.seen(1), ElementsAre(1, 0, -1)) << "no frame of the new episode was played";
  EXPECT_THAT(tally.seen(2), ElementsAre(0, 3, 0));
  tally.step(0);
  tally.step(0);  // the seventh frame is the last
  EXPECT_TRUE(tally.terminated(0));
  EXPECT_EQ(tally.reward(0), 70);
  EXPECT_FALSE(tally.terminated(1));
}

// Shows a number that rises and falls.
struct Flicker {
  static Spec spec() {
    return {.id = "Flicker-v0", .observation = {{}}, .action = Discrete{2}, .max_episode_steps = 7};
  }
  float reset(NumpyGenerator& /*random*/) { return shown(steps = 0); }
  StepResult<float> step(std::int64_t /*action*/) { return {shown(++steps), 1}; }
  static float shown(int steps) { return static_cast<float>(steps % 2 == 0 ? steps : -steps); }
  int steps = 0;
};

TEST(FrameSkipTest, ShowsTheLargerOneOfTheLastTwoFrames) {
  Wrapped<Flicker> flicker({"frame_skip=3:max"});
  EXPECT_THAT(flicker.seen(), ElementsAre(0)) << "a reset is shown as it is";
  flicker.step(0);
  EXPECT_THAT(flicker.seen(), ElementsAre(2)) << "of 2 and -3";
  flicker.step(0);
  EXPECT_THAT(flicker.seen(), ElementsAre(6)) << "of -5 and 6";
  flicker.step(0);
  EXPECT_TRUE(flicker.truncated());
  EXPECT_THAT(flicker.last_seen(), ElementsAre(-7)) << "an end before the last frame is shown alone";
}

TEST(FrameSkipTest, ALastFrameThatEndsAnEpisodeIsComparedToo) {
  Wrapped<Flicker> flicker({"frame_skip=7:max"});
  flicker.step(0);
  EXPECT_TRUE(flicker.truncated());
  EXPECT_THAT(flicker.last_seen(), ElementsAre(6));
}

// The limit counts wrapped steps, and ends the last of their frames.
TEST(FrameSkipTest, ALimitAroundItEndsTheLastFrame) {
  Wrapped<Tally> tally({"frame_skip=2", "time_limit=2"});
  tally.step(0);
  EXPECT_FALSE(tally.truncated());
  tally.step(0);
  EXPECT_TRUE(tally.truncated());
  EXPECT_THAT(tally.last_seen(), ElementsAre(0, 4, 0));
}

TEST(FrameSkipTest, MasksAndWrongNumbersAreRefused) {
  EXPECT_THAT(refusal_of<Pictures>({"frame_skip=2"}), HasSubstr("action masks"));
  EXPECT_THAT(refusal_of<Tally>({"frame_skip=1:max"}), HasSubstr("an integer from 2 to 1000"));
  EXPECT_THAT(refusal_of<Tally>({"frame_skip=2:mean"}), HasSubstr("there is no 'mean' for it; there is 'max'"));
}

}  // namespace
}  // namespace tandem::rl
