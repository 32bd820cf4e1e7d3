#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tandem/rl/env/native/catch.h"
#include "tandem/rl/env/testing/tally.h"

namespace tandem::rl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Pictures;
using testing::refusal_of;
using testing::Tally;
using testing::Wrapped;

TEST(FrameStackTest, ShowsTheOldestFrameFirst) {
  Wrapped<Tally> tally({"frame_stack=3"});
  const Leaf& leaf = tally.group().spec().observation.front();
  EXPECT_THAT(leaf.shape, ElementsAre(3, 3));
  EXPECT_THAT(leaf.high, ElementsAre(1000, 7, 4, 1000, 7, 4, 1000, 7, 4));
  EXPECT_THAT(tally.seen(), ElementsAre(0, 0, -1, 0, 0, -1, 0, 0, -1));
  tally.step(1);
  EXPECT_THAT(tally.seen(), ElementsAre(0, 0, -1, 0, 0, -1, 0, 1, 1));
  tally.step(2);
  tally.step(3);
  EXPECT_THAT(tally.seen(), ElementsAre(0, 1, 1, 0, 2, 2, 0, 3, 3));
}

TEST(FrameStackTest, AnEpisodeEndsWithItsOwnFramesAndTheNextBeginsWithout) {
  Wrapped<Tally> tally({"frame_stack=3"}, 2);
  tally.step({1, 1});
  tally.step({4, 2});
  EXPECT_THAT(tally.last_seen(0), ElementsAre(0, 0, -1, 0, 1, 1, 0, 2, 4));
  EXPECT_THAT(tally.seen(0), ElementsAre(1, 0, -1, 1, 0, -1, 1, 0, -1));
  EXPECT_THAT(tally.seen(1), ElementsAre(0, 0, -1, 0, 1, 1, 0, 2, 2));
  tally.step({0, 0});
  EXPECT_THAT(tally.seen(0), ElementsAre(1, 0, -1, 1, 0, -1, 1, 1, 0));
}

// The bound of the third element is -1 .. 4, those of the first are 0 and above: zero is within.
TEST(FrameStackTest, ZerosMayStandBeforeTheFirstFrame) {
  Wrapped<Tally> tally({"frame_stack=2:zero"});
  EXPECT_THAT(tally.seen(), ElementsAre(0, 0, 0, 0, 0, -1));
  tally.step(1);
  EXPECT_THAT(tally.seen(), ElementsAre(0, 0, -1, 0, 1, 1));
}

TEST(FrameStackTest, ZerosMoveToTheNearestBound) {
  Wrapped<Pictures> pictures({"frame_stack=2:zero@mode"});
  EXPECT_EQ(pictures.seen<std::int64_t>(0, 2)[0], 1) << "its choices are 1 to 3";
}

TEST(FrameStackTest, ImagesStackAlongTheirChannels) {
  Wrapped<Catch> stacked({"frame_stack=4"}), plain({});
  EXPECT_THAT(stacked.group().spec().observation.front().shape, ElementsAre(4, Catch::kSide, Catch::kSide));
  std::vector<std::uint8_t> expected;
  for (int step = 0; step < 4; ++step) {
    stacked.step(1), plain.step(1);
    const auto frame = plain.seen<std::uint8_t>();
    expected.insert(expected.end(), frame.begin(), frame.end());
  }
  EXPECT_EQ(stacked.seen<std::uint8_t>(), expected);
}

TEST(FrameStackTest, OneLeafOfSeveralMayBeStacked) {
  Wrapped<Pictures> pictures({"frame_stack=2@pose"});
  EXPECT_THAT(pictures.group().spec().observation[0].shape, ElementsAre(6, 4, 3));
  EXPECT_THAT(pictures.group().spec().observation[1].shape, ElementsAre(2, 2));
  pictures.step(0);
  EXPECT_EQ(pictures.seen(0, 1)[0], -2);
  EXPECT_EQ(pictures.seen(0, 1)[2], -1);
}

TEST(FrameStackTest, ChannelsThatAreLastAreRefused) {
  EXPECT_THAT(refusal_of<Pictures>({"frame_stack=2@pixels"}), HasSubstr("put channels_first before it"));
  EXPECT_THAT(refusal_of<Pictures>({"frame_stack=2@pixel"}), HasSubstr("there are pixels, pose, mode"));
  EXPECT_EQ(refusal_of<Pictures>({"channels_first", "frame_stack=2"}), "");
}

}  // namespace
}  // namespace tandem::rl
