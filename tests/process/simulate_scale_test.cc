// `tandem simulate-scale` with real ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/testing/temporary_folder.h"
#include "training.h"

namespace tandem::process_test {
namespace {

using ::testing::HasSubstr;

TEST(SimulateScaleTest, RanksAreMeasuredAndModelledUnderEveryPolicy) {
  const TemporaryFolder scratch;
  const Ended ended = run(
      tandem({"simulate-scale", "--ranks", "1,3", "--steps", "8", "--minibatches", "2", "--minibatch", "1", "--updates",
              "2", "--slow-rank", "3", "--model-ranks", "64", "--json", "-o", (scratch / "scale.svg").string()}));
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_TRUE(std::filesystem::exists(scratch / "scale.svg"));
  const JsonValue found = read_json(ended.out);
  ASSERT_EQ(found.at("measured").as_array().size(), 2u);
  ASSERT_EQ(found.at("modelled").as_array().size(), 3u);
  EXPECT_EQ(found.at("measured").as_array()[0].at("wait_all").at("efficiency").as_double(), 1);
  for (const JsonValue& point : found.at("measured").as_array()) {
    for (const char* policy : {"wait_all", "preempt", "time_optimal"}) {
      EXPECT_GT(point.at(policy).at("samples_per_s").as_double(), 0);
      // Nobody sleeps less than was asked for: 8 steps and 2 minibatches of 1 ms each.
      EXPECT_LE(point.at(policy).at("samples_per_s").as_double(),
                800.0 * static_cast<double>(point.at("ranks").as_int64()));
    }
  }
}

TEST(SimulateScaleTest, WhatIsWrongIsSaidAtOnceBeforeAnyRankStarts) {
  const Ended ended = run(tandem({"simulate-scale", "--ranks", "4", "--step", "slow"}));
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, ::testing::AllOf(HasSubstr("--ranks"), HasSubstr("--step slow")));
}

}  // namespace
}  // namespace tandem::process_test
