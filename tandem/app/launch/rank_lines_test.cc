#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/app/launch/rank_output.h"

namespace tandem::app {
namespace {

using ::testing::ElementsAre;

TEST(RankLinesTest, OnlyWholeLinesAreGivenOut) {
  RankLines lines(2);
  EXPECT_EQ(lines.add(Stream::kOut, "ab"), "");
  EXPECT_EQ(lines.add(Stream::kOut, "c\nd\ne"), "[2] abc\n[2] d\n");
  EXPECT_EQ(lines.finish(Stream::kOut), "[2] e\n");
  EXPECT_EQ(lines.finish(Stream::kOut), "");
}

TEST(RankLinesTest, EmptyLinesStay) {
  RankLines lines(0);
  EXPECT_EQ(lines.add(Stream::kOut, "\n\na\n"), "[0] \n[0] \n[0] a\n");
}

TEST(RankLinesTest, EachStreamHasItsOwnUnfinishedLine) {
  RankLines lines(0);
  EXPECT_EQ(lines.add(Stream::kOut, "out"), "");
  EXPECT_EQ(lines.add(Stream::kErr, "err\n"), "[0] err\n");
  EXPECT_EQ(lines.add(Stream::kOut, "put\n"), "[0] output\n");
  EXPECT_THAT(lines.last(), ElementsAre("err", "output"));
}

TEST(RankLinesTest, AnEndlessLineIsCut) {
  RankLines lines(0);
  const std::string all = lines.add(Stream::kOut, std::string(RankLines::kLongestLine + 1, 'x'));
  EXPECT_EQ(all.size(), RankLines::kLongestLine + std::string("[0] \n").size());
  EXPECT_EQ(lines.finish(Stream::kOut), "[0] x\n");
}

TEST(RankLinesTest, TheCallStackOfAnErrorDoesNotPushOutTheErrorAboveIt) {
  RankLines lines(0);
  EXPECT_EQ(lines.add(Stream::kErr, "sizes differ\n"), "[0] sizes differ\n");
  for (int i = 0; i < 25; ++i)
    EXPECT_EQ(lines.add(Stream::kErr, concat("frame #", i, ": f\n")), concat("[0] frame #", i, ": f\n"));
  EXPECT_THAT(lines.last(), ElementsAre("sizes differ"));
}

TEST(RankLinesTest, TheLastLinesAreKept) {
  RankLines lines(0);
  for (int i = 0; i < 25; ++i) (void)lines.add(Stream::kOut, std::to_string(i) + "\n");
  EXPECT_THAT(lines.last(), ElementsAre("15", "16", "17", "18", "19", "20", "21", "22", "23", "24"));
}

}  // namespace
}  // namespace tandem::app
