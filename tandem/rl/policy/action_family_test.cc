#include "tandem/rl/policy/action_family.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "tandem/base/error.h"

namespace tandem::rl {
namespace {

const Box kTwoActions{{-2, 0}, {2, 1}};

TEST(ActionFamilyTest, NamesLeadBackToTheFamily) {
  for (const auto family : {ActionFamily::kCategorical, ActionFamily::kMultiCategorical, ActionFamily::kNormal,
                            ActionFamily::kSquashedNormal, ActionFamily::kStateDependentNoise}) {
    EXPECT_EQ(action_family(name_of(family)), family);
  }
  EXPECT_THROW((void)action_family("gaussian"), ConfigError);
}

TEST(ActionFamilyTest, EverySpaceHasItsUsualFamilyAndRefusesTheOthers) {
  EXPECT_EQ(usual_family(Discrete{3}), ActionFamily::kCategorical);
  EXPECT_EQ(usual_family(MultiDiscrete{{3, 2}}), ActionFamily::kMultiCategorical);
  EXPECT_EQ(usual_family(kTwoActions), ActionFamily::kNormal);
  EXPECT_NO_THROW(check_family(ActionFamily::kSquashedNormal, kTwoActions));
  EXPECT_THROW(check_family(ActionFamily::kNormal, Discrete{3}), ConfigError);
  EXPECT_THROW(check_family(ActionFamily::kCategorical, MultiDiscrete{{3}}), ConfigError);
  EXPECT_THROW(check_family(ActionFamily::kCategorical, kTwoActions), ConfigError);
}

TEST(ActionFamilyTest, SquashingNeedsFiniteBounds) {
  EXPECT_THROW(check_family(ActionFamily::kSquashedNormal, Box{{-INFINITY}, {1}}), ConfigError);
  EXPECT_NO_THROW(check_family(ActionFamily::kNormal, Box{{-INFINITY}, {1}}));
}

TEST(ActionFamilyTest, MakesTheDistributionOfTheFamily) {
  const auto name = [](ActionFamily family, const ActionSpace& space, const std::vector<at::Tensor>& parameters) {
    return std::string(make_distribution(family, space, parameters)->family());
  };
  EXPECT_EQ(name(ActionFamily::kCategorical, Discrete{3}, {at::zeros({4, 3})}), "Categorical");
  EXPECT_EQ(name(ActionFamily::kMultiCategorical, MultiDiscrete{{3, 2}}, {at::zeros({4, 5})}), "MultiCategorical");
  EXPECT_EQ(name(ActionFamily::kNormal, kTwoActions, {at::zeros({4, 2}), at::zeros({2})}), "Normal");
  EXPECT_EQ(name(ActionFamily::kSquashedNormal, kTwoActions, {at::zeros({4, 2}), at::zeros({2})}), "SquashedNormal");
  EXPECT_EQ(
      name(ActionFamily::kStateDependentNoise, kTwoActions, {at::zeros({4, 2}), at::zeros({4, 7}), at::zeros({7, 2})}),
      "StateDependentNoise");
}

TEST(ActionFamilyTest, WrongParametersAreRefused) {
  EXPECT_THROW((void)make_distribution(ActionFamily::kNormal, kTwoActions, {at::zeros({4, 2})}), ConfigError);
  EXPECT_THROW((void)make_distribution(ActionFamily::kCategorical, Discrete{3}, {at::zeros({4, 2})}), ConfigError);
  EXPECT_THROW((void)make_distribution(ActionFamily::kNormal, kTwoActions, {at::zeros({4, 3}), at::zeros({3})}),
               ConfigError);
  EXPECT_THROW((void)make_distribution(ActionFamily::kNormal, kTwoActions, {at::zeros({4, 2}), at::zeros({2})},
                                       at::ones({4, 2}, at::kByte)),
               ConfigError);
}

TEST(ActionFamilyTest, TheMaskReachesTheDistribution) {
  const auto d =
      make_distribution(ActionFamily::kCategorical, Discrete{2}, {at::zeros({1, 2})}, torch::tensor({1, 0}, at::kByte));
  EXPECT_EQ(d->log_prob(torch::tensor({1}, at::kLong)).item<float>(), -INFINITY);
}

TEST(ActionFamilyTest, ActionsAreInUnitsOfTheBounds) {
  const Box box{.low = {-2, 0, -INFINITY, 1}, .high = {2, 20, INFINITY, INFINITY}};
  const std::vector<float> given{-3.0F, 0.25F, 7.0F, 0.5F, 0.5F, -1.0F, -9.0F, 3.0F};
  std::vector<float> taken(8);
  to_bounds(box, given.data(), 2, taken.data());
  EXPECT_EQ(taken, (std::vector<float>{-2.0F, 12.5F, 7.0F, 1.0F, 1.0F, 0.0F, -9.0F, 3.0F}));
}

// Bounds of -1 and 1 change no bit.
TEST(ActionFamilyTest, ActionsWithinTheUnitStayAsTheyAre) {
  const Box box{.low = {-1}, .high = {1}};
  for (const float action : {0.1F, -0.7F, 1e-30F, -1.0F}) {
    float taken = 0;
    to_bounds(box, &action, 1, &taken);
    EXPECT_EQ(taken, action);
  }
}

}  // namespace
}  // namespace tandem::rl
