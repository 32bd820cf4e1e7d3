#include "tandem/rl/replay/n_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tandem/base/philox.h"

namespace tandem::rl {
namespace {

TEST(NStepTest, ATruncatedWindowIsBootstrappedAndATerminatedOneIsNot) {
  const std::vector<double> rewards{1, 2, 4};
  const auto of = [&](std::vector<std::uint8_t> ends) { return n_step_return(rewards, ends, 0.5); };
  EXPECT_EQ(of({0, 0, 0}).reward, 1 + 0.5 * 2 + 0.25 * 4);
  EXPECT_EQ(of({0, 0, 0}).discount, 0.125);
  EXPECT_EQ(of({0, kStepTruncated, 0}).reward, 2);
  EXPECT_EQ(of({0, kStepTruncated, 0}).discount, 0.25);
  EXPECT_EQ(of({0, kStepTruncated, 0}).steps, 2);
  EXPECT_EQ(of({0, kStepTerminated, 0}).reward, 2);
  EXPECT_EQ(of({0, kStepTerminated, 0}).discount, 0);
  EXPECT_EQ(of({kStepTerminated | kStepTruncated, 0, 0}).discount, 0) << "the task ended on its last allowed step";
  EXPECT_EQ(of({kStepTerminated | kStepTruncated, 0, 0}).reward, 1);
}

// The closed form: sum over k of gamma^k r_k times the chance, 0 or 1, that no step before k ended.
TEST(NStepTest, RandomEpisodesHaveTheClosedForm) {
  Philox random(5);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t n = 1 + random.below(12);
    const double gamma = random.uniform_double();
    std::vector<double> rewards(n);
    std::vector<std::uint8_t> ends(n);
    for (double& reward : rewards) reward = random.normal();
    for (std::uint8_t& end : ends) end = static_cast<std::uint8_t>(random.below(5) == 0 ? random.below(4) : 0);
    double sum = 0, alive = 1, bootstrap = 1;
    for (std::size_t k = 0; k < n; ++k) {
      sum += alive * std::pow(gamma, static_cast<double>(k)) * rewards[k];
      bootstrap *= alive * gamma + (1 - alive);
      if ((ends[k] & kStepTerminated) != 0) bootstrap *= 1 - alive;
      alive *= ends[k] == 0 ? 1 : 0;
    }
    const NStepReturn found = n_step_return(rewards, ends, gamma);
    EXPECT_NEAR(found.reward, sum, 1e-12);
    EXPECT_NEAR(found.discount, bootstrap, 1e-13);
  }
}

TEST(NStepTest, ARewardIsMultipliedBeforeItIsCut) {
  const ClippedScale scale{.factor = 2, .largest = 6};
  EXPECT_EQ(scale.of(2.5), 5);
  EXPECT_EQ(scale.of(4), 6);
  EXPECT_EQ(scale.of(-4), -6);
  EXPECT_EQ(ClippedScale().of(1e300), 1e300);
}

}  // namespace
}  // namespace tandem::rl
