#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/app/tune/tuning.h"

namespace tandem::app {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Measured measured(const std::vector<double>& rates, std::size_t options = 1, Learning learning = Learning::kSameBits) {
  Measured result{.layout = {.values = std::vector<LayoutValue>(options, {"devices", "cpu:2"}), .learning = learning}};
  for (const double rate : rates) result.runs.push_back({.env_steps_per_s = rate, .state_sha256 = "a"});
  return result;
}

UpdateMetrics update(std::int64_t env_steps, double wall_s, double sample_ms, double learn_ms) {
  UpdateMetrics metrics{.env_steps = env_steps, .wall_s = wall_s};
  metrics.figures.add("sample_ms", sample_ms).add("load_ms", 10.0).add("learn_ms", learn_ms).add("sync_ms", 50.0);
  return metrics;
}

TEST(MeasurementTest, ARunIsMeasuredFromTheEndOfItsFirstUpdate) {
  const RunSample sample =
      sample_of(std::vector{update(100, 5, 9000, 9000), update(200, 5.5, 100, 290), update(300, 6, 200, 190)});
  EXPECT_DOUBLE_EQ(sample.env_steps_per_s, 200);
  EXPECT_DOUBLE_EQ(sample.seconds, 1);
  EXPECT_DOUBLE_EQ(sample.sample, 0.3);
  EXPECT_DOUBLE_EQ(sample.learn, 0.5);  // loading is learning
  EXPECT_DOUBLE_EQ(sample.sync, 0.1);
}

TEST(MeasurementTest, OfAPipelineTheSharesAreHowLongItsThreadsWereBusy) {
  std::vector<UpdateMetrics> updates{update(0, 1, 0, 0), update(10, 2, 0, 0), update(20, 3, 0, 0)};
  for (std::size_t i = 0; i < updates.size(); ++i)
    updates[i].figures.add("learner_idle", i == 1 ? 0.5 : 0.25).add("workers_idle", i == 2 ? 0.75 : 0.25);
  const RunSample sample = sample_of(updates);
  EXPECT_DOUBLE_EQ(sample.sample, 0.5);
  EXPECT_DOUBLE_EQ(sample.learn, 0.625);
  EXPECT_EQ(sample.sync, 0);
}

TEST(MeasurementTest, TimesIsTheMedianOverTheRoundsOfTheRatioInEach) {
  // The machine became slower by half; in every round the layout was a little faster.
  const Rating rating = rate(measured({220, 112, 55}), measured({200, 100, 50}, 0));
  EXPECT_DOUBLE_EQ(rating.times, 1.1);
  EXPECT_EQ(rating.median, 112);
  EXPECT_EQ(rating.lowest, 55);
  EXPECT_EQ(rating.highest, 220);
  EXPECT_DOUBLE_EQ(rate(measured({100, 300}), measured({100, 100}, 0)).times, 2);
}

TEST(MeasurementTest, TheFastestOfTheFirstRoundAndTheGivenLayoutGoOn) {
  const std::vector<Measured> all{measured({1}, 0), measured({5}), measured({9}), measured({7}), measured({8})};
  EXPECT_THAT(finalists(all, 2), ElementsAre(0, 2, 4));
  EXPECT_THAT(finalists(all, 8), ElementsAre(0, 1, 2, 3, 4));
}

TEST(MeasurementTest, TheFastestIsChosenIfItIsFasterByMoreThanNoise) {
  EXPECT_EQ(choose(std::vector{measured({100, 100}, 0), measured({120, 130}), measured({150, 140})}), 2U);
  EXPECT_EQ(choose(std::vector{measured({100, 100}, 0), measured({102, 103})}), 0U);
  EXPECT_EQ(choose(std::vector{measured({100, 100}, 0), measured({90, 80})}), 0U);
  // One that was left out after the first round is not chosen, however lucky that was.
  EXPECT_EQ(choose(std::vector{measured({100, 100}, 0), measured({900}), measured({110, 110})}), 2U);
}

TEST(MeasurementTest, OfEquallyFastLayoutsThatWhichChangesLeastIsChosen) {
  const Measured given = measured({100}, 0);
  EXPECT_EQ(choose(std::vector{given, measured({201}, 1, Learning::kOther), measured({200}, 2)}), 2U);
  EXPECT_EQ(choose(std::vector{given, measured({201}, 2), measured({200}, 1)}), 2U);
  EXPECT_EQ(choose(std::vector{given, measured({220}, 1, Learning::kOther), measured({200}, 2)}), 1U);
}

TEST(MeasurementTest, StatesThatDifferBreakThePromiseOfTheSameBitsOnly) {
  std::vector<Measured> all{measured({1}, 0), measured({1, 1}), measured({1}, 1, Learning::kOther)};
  all[2].runs[0].state_sha256 = "b";
  EXPECT_THAT(broken_promises(all), IsEmpty());
  all[1].runs[1].state_sha256 = "b";
  EXPECT_THAT(broken_promises(all), ElementsAre(1));
}

TEST(MeasurementTest, ARunThatIsNeverTheSameBreaksNoPromise) {
  std::vector<Measured> all{measured({1, 1}, 0), measured({1, 1})};
  all[0].runs[1].state_sha256 = "b";
  all[1].runs[0].state_sha256 = "c";
  EXPECT_THAT(broken_promises(all), IsEmpty());
}

}  // namespace
}  // namespace tandem::app
