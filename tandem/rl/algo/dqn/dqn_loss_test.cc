// The projection of distributions and the loss of quantiles against loops over their formulas, in float64.
#include "tandem/rl/algo/dqn/dqn_loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tandem::rl {
namespace {

TEST(DqnLossTest, TheProjectionSharesOutWhatFallsBetweenTheValues) {
  at::manual_seed(2);
  constexpr std::int64_t kAtoms = 7, kRows = 50;
  const at::Tensor support = at::linspace(-2, 3, kAtoms, at::kDouble);
  const at::Tensor probabilities = at::rand({kRows, kAtoms}, at::kDouble).softmax(1);
  const at::Tensor reward = at::randn({kRows}, at::kDouble) * 3, discount = at::rand({kRows}, at::kDouble);
  const at::Tensor projected = project(probabilities, support, reward, discount);
  for (std::int64_t row = 0; row < kRows; ++row) {
    std::vector<double> wanted(kAtoms, 0.0);
    for (std::int64_t j = 0; j < kAtoms; ++j) {
      const double moved =
          std::clamp(reward[row].item<double>() + discount[row].item<double>() * support[j].item<double>(), -2.0, 3.0);
      const double place = (moved + 2) / (5.0 / (kAtoms - 1)), below = std::floor(place), share = place - below;
      wanted[static_cast<std::size_t>(below)] += (1 - share) * probabilities[row][j].item<double>();
      if (share > 0) wanted[static_cast<std::size_t>(below) + 1] += share * probabilities[row][j].item<double>();
    }
    for (std::int64_t j = 0; j < kAtoms; ++j)
      EXPECT_NEAR(projected[row][j].item<double>(), wanted[static_cast<std::size_t>(j)], 1e-10);
    EXPECT_NEAR(projected[row].sum().item<double>(), 1, 1e-10);
  }
}

TEST(DqnLossTest, AValueThatFallsOnAnotherOrBeyondTheLastStaysWhole) {
  const at::Tensor support = at::linspace(-1, 1, 3, at::kDouble);
  const auto whole = [](std::int64_t at) { return at::one_hot(at::tensor({at}), 3).to(at::kDouble); };
  const at::Tensor one = whole(1);
  const auto moved_by = [&](double reward) {
    return project(one, support, at::full({1}, reward, at::kDouble), at::ones({1}, at::kDouble));
  };
  EXPECT_TRUE(moved_by(0).equal(one));
  EXPECT_TRUE(moved_by(1).equal(whole(2)));
  EXPECT_TRUE(moved_by(9).equal(whole(2)));
  EXPECT_TRUE(moved_by(-9).equal(whole(0)));
}

TEST(DqnLossTest, TheLossOfQuantilesIsTheTiltedHuberLoss) {
  at::manual_seed(3);
  const at::Tensor quantiles = at::randn({9, 5}, at::kDouble) * 2, samples = at::randn({9, 4}, at::kDouble) * 2;
  const at::Tensor loss = quantile_huber(quantiles, samples);
  for (std::int64_t row = 0; row < 9; ++row) {
    double wanted = 0;
    for (int i = 0; i < 5; ++i) {
      for (int j = 0; j < 4; ++j) {
        const double error = samples[row][j].item<double>() - quantiles[row][i].item<double>();
        const double huber = std::abs(error) <= 1 ? error * error / 2 : std::abs(error) - 0.5;
        wanted += std::abs((i + 0.5) / 5 - (error < 0 ? 1 : 0)) * huber / 4;
      }
    }
    EXPECT_NEAR(loss[row].item<double>(), wanted, 1e-10);
  }
}

Spec masked_spec() {
  Spec spec;
  spec.id = "Test-v0";
  spec.observation = {{.name = "obs", .type = ElementType::kFloat32, .shape = {2}, .low = {}, .high = {}}};
  spec.action = Discrete{3};
  spec.has_action_mask = true;
  return spec;
}

// The best action of the next step is among those that are allowed there.
TEST(DqnLossTest, TargetsLookAtAllowedActionsAlone) {
  at::manual_seed(5);
  const NetworkOptions networks{.hidden = {8}};
  DqnOptions options;
  options.target = DqnTarget::kMax;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(1);
  DqnPolicy policy(masked_spec(), networks, options, generator);
  ReturnNetwork target(masked_spec(), networks, options, generator);
  TransitionRows rows = make_transitions(masked_spec(), 6, 0);
  rows.observation[0].normal_();
  rows.next_observation[0].normal_();
  rows.discount.fill_(1);
  rows.weight.fill_(1);
  rows.next_action_mask.fill_(0);
  rows.next_action_mask.select(1, 2).fill_(1);
  OffPolicySums sums;
  std::vector<float> errors;
  (void)dqn_loss(policy, target, rows, options, sums, &errors);
  const at::Tensor next = target.forward(rows.next_observation).squeeze(2).select(1, 2);
  const at::Tensor now = policy.network().forward(rows.observation).squeeze(2).select(1, 0);
  for (std::int64_t row = 0; row < 6; ++row)
    EXPECT_NEAR(errors[static_cast<std::size_t>(row)], (now - next)[row].abs().item<float>(), 1e-6);
}

}  // namespace
}  // namespace tandem::rl
