#include "tandem/rl/replay/replay_part.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/rl/replay/testing/draw.h"
#include "tandem/rl/replay/testing/specs.h"

namespace tandem::rl {
namespace {

TEST(ReplayPartTest, EveryDrawnRowIsWhatThePastSays) {
  for (const int n_step : {1, 3, 7}) {
    for (const KeptEnds kept : {KeptEnds::kTruncated, KeptEnds::kAll}) {
      const ReplayOptions options{.rows = 200, .n_step = n_step, .gamma = 0.9, .kept_ends = kept, .ends = 200};
      Past past(mixed_spec(), 3, 7);
      ReplayPart part(past.spec(), 3, options, 11);
      past.begin(part);
      for (int round = 0; round < 20; ++round) {
        past.steps(part, 13);
        expect_all_as_in(past, options, Draw(part, past.spec(), 100));
        if (HasFailure()) FAIL() << "n_step " << n_step << ", round " << round;
      }
    }
  }
}

TEST(ReplayPartTest, ARowCanBeDrawnWhenItsStepsAreComplete) {
  Past past(plain_spec(), 4, 1);
  ReplayPart part(past.spec(), 4, {.rows = 40, .n_step = 3}, 1);
  EXPECT_EQ(part.drawable(), 0);
  past.begin(part);
  for (int step = 1; step <= 30; ++step) {
    past.step(part);
    EXPECT_EQ(part.drawable(), 4 * std::min(std::max(step - 2, 0), 8)) << "after step " << step;
    EXPECT_EQ(part.stats().rows, 4 * std::min(step, 10));
  }
}

TEST(ReplayPartTest, TheWholeCapacityIsHeldAndNothingOlder) {
  Past past(plain_spec(), 3, 2);
  ReplayPart part(past.spec(), 3, {.rows = 100}, 3);  // 34 steps
  past.begin(part);
  past.steps(part, 500);
  EXPECT_EQ(part.stats().capacity, 102);
  const Draw draw(part, past.spec(), 4000);
  const std::set<std::int64_t> rows(draw.row.begin(), draw.row.end());
  EXPECT_EQ(rows.size(), 102U);
  EXPECT_EQ(*rows.begin(), (500 - 34) * 3);
  EXPECT_EQ(*rows.rbegin(), 500 * 3 - 1);
}

TEST(ReplayPartTest, UniformDrawsGiveEachRowTheSameChance) {
  Past past(plain_spec(1), 2, 2);
  ReplayPart part(past.spec(), 2, {.rows = 50}, 4);
  past.begin(part);
  past.steps(part, 60);
  const Draw draw(part, past.spec(), 50'000);
  std::map<std::int64_t, int> times;
  for (const std::int64_t row : draw.row) ++times[row];
  double chi_squared = 0;
  for (const auto& entry : times) chi_squared += (entry.second - 1000.0) * (entry.second - 1000.0) / 1000;
  EXPECT_EQ(times.size(), 50U);
  EXPECT_LT(chi_squared, 98) << "49 degrees of freedom: one seed in 25,000 is beyond that";
  EXPECT_EQ(draw.weight, std::vector<double>(50'000, 1.0));
}

TEST(ReplayPartTest, EachRewardOfASumIsScaledAndCut) {
  constexpr double kGamma = 0.5;
  const ClippedScale scale{.factor = 3, .largest = 1};
  constexpr std::int64_t kEnvs = 2, kDrawn = 500;
  std::map<std::int64_t, double> paid;
  std::vector<double> reward(kDrawn), discount(kDrawn);
  std::vector<std::int64_t> row(kDrawn);
  const SampleArrays into{.reward = reward.data(), .discount = discount.data(), .row = row.data()};
  for (const int n_step : {1, 2}) {
    Past past(plain_spec(), kEnvs, 9);
    ReplayPart part(past.spec(), kEnvs, {.rows = 60, .n_step = n_step, .gamma = kGamma}, 2);
    past.begin(part);
    past.steps(part, 25);
    part.sample(kDrawn, into, 0, n_step == 1 ? ClippedScale() : scale);
    int sums = 0, cut = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (n_step == 1) paid[row[i]] = reward[i];
      if (n_step == 1 || discount[i] != kGamma * kGamma) continue;  // an episode ended within
      ASSERT_TRUE(paid.contains(row[i]) && paid.contains(row[i] + kEnvs));
      EXPECT_DOUBLE_EQ(reward[i], scale.of(paid[row[i]]) + kGamma * scale.of(paid[row[i] + kEnvs]));
      ++sums;
      cut += std::abs(paid[row[i]]) > 1.0 / 3 ? 1 : 0;
    }
    EXPECT_EQ(sums > 100 && cut > 20, n_step == 2);
  }
}

TEST(ReplayPartTest, DrawsFollowFromTheSeed) {
  const auto drawn = [](std::uint64_t seed) {
    Past past(mixed_spec(), 2, 9);
    ReplayPart part(past.spec(), 2, {.rows = 60}, seed);
    past.begin(part);
    past.steps(part, 70);
    (void)Draw(part, past.spec(), 5);
    return Draw(part, past.spec(), 20);
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1).row, drawn(2).row);
}

TEST(ReplayPartTest, NewEpisodesInTheMiddleCutThoseUnderWay) {
  const ReplayOptions options{.rows = 300, .n_step = 4, .gamma = 0.5};
  Past past(mixed_spec(), 3, 21);
  ReplayPart part(past.spec(), 3, options, 5);
  past.begin(part);
  past.begin(part);  // without a step between: only the observation is another
  for (int round = 0; round < 30; ++round) {
    past.steps(part, 1 + round % 5);
    past.begin(part);
    if (part.drawable() > 0) expect_all_as_in(past, options, Draw(part, past.spec(), 100));
  }
}

TEST(ReplayPartTest, WhereThereIsNoRoomForEndsTheOldestStepsGo) {
  const ReplayOptions options{.rows = 1000, .n_step = 2, .gamma = 0.7, .ends = 40};
  Past past(plain_spec(), 4, 31, {.terminated = 5, .truncated = 30, .both = 0});
  ReplayPart part(past.spec(), 4, options, 6);
  past.begin(part);
  std::int64_t least = 1000;
  for (int round = 0; round < 40; ++round) {
    past.steps(part, 20);
    expect_all_as_in(past, options, Draw(part, past.spec(), 100));
    least = std::min(least, part.stats().rows);
  }
  EXPECT_LT(part.stats().rows, 250) << "about 40 ends of 30 %";
  EXPECT_GE(least, 4);
}

TEST(ReplayPartTest, NumbersNearEachOtherStayApartUnlessTheyAreNarrowed) {
  const Spec spec = plain_spec(2, ElementType::kFloat64);
  for (const StoredNumbers numbers : {StoredNumbers::kAsGiven, StoredNumbers::kFloat32}) {
    const ReplayOptions options{.rows = 64, .leaves = {{.numbers = numbers}}};
    Past past(spec, 2, 8);  // around 1.7e9
    ReplayPart part(spec, 2, options, 1);
    past.begin(part);
    past.steps(part, 40);
    const Draw draw(part, spec, 64);
    expect_all_as_in(past, options, draw);
    std::set<Past::Bytes> different;
    for (std::size_t i = 0; i < 64; ++i) different.insert(draw.observation_of(i, 0));
    EXPECT_EQ(different.size() > 20, numbers == StoredNumbers::kAsGiven) << different.size();
    EXPECT_EQ(part.leaves()[0].type == ElementType::kFloat32, numbers == StoredNumbers::kFloat32);
  }
}

TEST(ReplayPartTest, ANumberBeyondFloat32IsRefusedAndChangesNothing) {
  const Spec spec = plain_spec(2, ElementType::kFloat64);
  const ReplayOptions options{.rows = 64, .leaves = {{.numbers = StoredNumbers::kFloat32}}};
  Past past(spec, 2, 8);
  ReplayPart part(spec, 2, options, 1);
  past.begin(part);
  past.steps(part, 10);
  past.make_step();
  double before = 0;
  const double beyond = 1e39;
  std::byte* const second = past.arrays().observation[0] + 3 * sizeof(double);
  std::memcpy(&before, second, sizeof(double));
  std::memcpy(second, &beyond, sizeof(double));
  const std::string message = message_of<EnvError>([&] { part.append(past.actions(), past.arrays()); });
  EXPECT_NE(message.find("element 1 of leaf obs is 1e+39 in environment 1"), std::string::npos) << message;
  EXPECT_EQ(part.drawable(), 20);
  std::memcpy(second, &before, sizeof(double));
  part.append(past.actions(), past.arrays());
  expect_all_as_in(past, options, Draw(part, spec, 64));
}

TEST(ReplayPartTest, AnEndWithoutItsLastObservationIsRefusedAndChangesNothing) {
  Past past(plain_spec(), 2, 8, {.terminated = 0, .truncated = 100, .both = 0});
  ReplayPart part(past.spec(), 2, {.rows = 64}, 1);
  past.begin(part);
  past.make_step();
  EnvArrays without = past.arrays();
  without.final_observation.clear();
  const std::string message = message_of<ConfigError>([&] { part.append(past.actions(), without); });
  EXPECT_NE(message.find("environment 0 ended with step 0"), std::string::npos) << message;
  EXPECT_EQ(part.drawable(), 0);
  part.append(past.actions(), past.arrays());
  EXPECT_EQ(part.drawable(), 2);
}

TEST(ReplayPartTest, TerminationsNeedNoLastObservationUnlessAllAreKept) {
  for (const KeptEnds kept : {KeptEnds::kTruncated, KeptEnds::kAll}) {
    Past past(plain_spec(), 1, 8, {.terminated = 100, .truncated = 0, .both = 0});
    ReplayPart part(past.spec(), 1, {.rows = 8, .kept_ends = kept}, 1);
    past.begin(part);
    past.make_step();
    EnvArrays without = past.arrays();
    without.final_observation.clear();
    if (kept == KeptEnds::kAll) {
      EXPECT_THROW(part.append(past.actions(), without), ConfigError);
    } else {
      EXPECT_NO_THROW(part.append(past.actions(), without));
    }
  }
}

TEST(ReplayPartTest, CallsOutOfOrderAreTheCallersMistake) {
  Past past(plain_spec(), 2, 8);
  ReplayPart part(past.spec(), 2, {.rows = 8}, 1);
  Past other(plain_spec(), 2, 8);
  ReplayPart of_other(past.spec(), 2, {.rows = 8}, 1);
  other.begin(of_other);
  other.make_step();
  EXPECT_THROW(part.append(other.actions(), other.arrays()), ConfigError) << "before begin()";
  past.begin(part);
  EXPECT_THROW(part.sample(4, {}), ConfigError) << "nothing to draw";
  past.step(part);
  EXPECT_NO_THROW(part.sample(4, {})) << "nothing is wanted";
  EXPECT_THROW(part.sample(0, {}), ConfigError);
  EXPECT_THROW(part.sample(4, {}, 1.5), ConfigError);
  float box = 0;
  EXPECT_THROW(part.sample(1, {.box = &box}), ConfigError) << "actions are discrete";
  std::uint8_t mask = 0;
  EXPECT_THROW(part.sample(1, {.action_mask = &mask}), ConfigError) << "there are no masks";
}

TEST(ReplayPartTest, StatisticsTellAgesAndRatios) {
  Past past(plain_spec(), 2, 3);
  ReplayPart part(past.spec(), 2, {.rows = 20}, 1);
  past.begin(part);
  EXPECT_EQ(part.stats().samples_per_insert, 0);
  past.steps(part, 30);
  const Draw draw(part, past.spec(), 300);
  double age = 0;
  for (const std::int64_t row : draw.row) age += (58 - 2 * std::floor(static_cast<double>(row) / 2)) / 300;
  const ReplayStats stats = part.stats();
  EXPECT_NEAR(stats.mean_age, age, 1e-9);
  EXPECT_GT(age, 0);
  EXPECT_EQ(stats.inserted, 60);
  EXPECT_EQ(stats.sampled, 300);
  EXPECT_EQ(stats.samples_per_insert, 5);
  EXPECT_EQ(stats.priority_max, 0);
}

TEST(ReplayPartTest, AllThatIsWrongWithTheOptionsIsToldAtOnce) {
  const ReplayOptions wrong{.rows = 0,
                            .n_step = 0,
                            .gamma = 1.5,
                            .leaves = {{.numbers = StoredNumbers::kFloat32, .frames = 2}},
                            .ends = -1,
                            .priorities = PriorityOptions{.alpha = 2, .epsilon = -1},
                            .hindsight = HindsightOptions{.goals = -1}};
  const std::string message = message_of<ConfigError>([&] { ReplayPart(plain_spec(3), 2, wrong, 1); });
  for (const char* fault :
       {"rows is 0", "n_step is 0", "gamma is 1.5", "cannot be narrowed", "a stack of 2 frames", "ends is -1",
        "alpha is 2", "epsilon is -1", "goals is -1", "achieved_goal", "kept_ends", "a function for rewards"})
    EXPECT_NE(message.find(fault), std::string::npos) << fault << " in " << message;
  EXPECT_FALSE(option_faults(plain_spec(), 8, {.rows = 16, .n_step = 3}).empty()) << "two steps are no window of three";
  EXPECT_FALSE(option_faults(plain_spec(), 8, {.rows = 16, .ends = 7}).empty()) << "eight episodes may end at once";
  EXPECT_TRUE(option_faults(plain_spec(), 8, {.rows = 16, .n_step = 2, .ends = 8}).empty());
  EXPECT_FALSE(option_faults(plain_spec(), 0, {}).empty());
}

}  // namespace
}  // namespace tandem::rl
