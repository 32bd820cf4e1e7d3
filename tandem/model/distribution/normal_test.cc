#include "tandem/model/distribution/normal.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <numbers>

#include "tandem/base/error.h"
#include "tandem/model/testing/seeded.h"

namespace tandem::model {
namespace {

TEST(NormalTest, LogProbEntropyAndKlAreThoseOfTheWorkedExample) {
  const Normal d(torch::tensor({{1.0, -2.0}}, at::kDouble), at::log(torch::tensor({0.5, 2.0}, at::kDouble)));
  // Densities at (1.5, 0): both one standard deviation away.
  const double log_two_pi = std::log(2 * std::numbers::pi);
  EXPECT_NEAR(d.log_prob(torch::tensor({{1.5, 0.0}}, at::kDouble)).item<double>(), -1.0 - log_two_pi, 1e-12);
  EXPECT_NEAR(d.entropy().item<double>(), 1 + log_two_pi, 1e-12);
  const Normal standard(at::zeros({1, 2}, at::kDouble), at::zeros({2}, at::kDouble));
  EXPECT_NEAR(d.kl(standard).item<double>(), 0.5 * (0.25 + 1 - 1) + std::log(2.0) + 0.5 * (4 + 4 - 1) - std::log(2.0),
              1e-12);
}

TEST(NormalTest, SamplesHaveItsMeanAndStandardDeviation) {
  const Normal d(torch::tensor({{1.0, -2.0}}, at::kDouble).expand({200000, 2}),
                 at::log(torch::tensor({0.5, 2.0}, at::kDouble)));
  const at::Tensor x = d.sample(seeded(1));
  EXPECT_TRUE(at::allclose(x.mean(0), torch::tensor({1.0, -2.0}, at::kDouble), 0, 0.02));
  EXPECT_TRUE(at::allclose(x.std(0), torch::tensor({0.5, 2.0}, at::kDouble), 0.01, 0));
}

TEST(NormalTest, OneLogStdForAllStatesGivesEntropyOfTheBatchShape) {
  const Normal d(at::zeros({4, 3, 2}), at::zeros({2}));
  EXPECT_EQ(d.entropy().sizes(), (std::vector<std::int64_t>{4, 3}));
}

TEST(NormalTest, ShapesThatWouldBroadcastWronglyAreRefused) {
  EXPECT_THROW(Normal(at::zeros({4, 2}), at::zeros({1})), ConfigError);
  EXPECT_THROW(Normal(at::zeros({4, 2}), at::zeros({3, 2})), ConfigError);
  EXPECT_THROW(Normal(at::zeros({4, 2}), at::zeros({2}, at::kDouble)), ConfigError);
  EXPECT_THROW((void)Normal(at::zeros({4, 2}), at::zeros({2})).log_prob(at::zeros({4, 1})), ConfigError);
}

TEST(SquashedNormalTest, DensityIntegratesToOne) {
  const std::int64_t n = 400001;
  const at::Tensor a = at::linspace(-0.9999999, 0.9999999, n, at::kDouble).unsqueeze(1);
  const SquashedNormal d(at::full({n, 1}, 0.4, at::kDouble), at::full({1}, std::log(0.6), at::kDouble));
  EXPECT_NEAR(at::trapz(d.log_prob(a).exp(), a.squeeze(1)).item<double>(), 1.0, 1e-6);
}

TEST(SquashedNormalTest, LogProbMatchesTheTextbookFormulaAwayFromSaturation) {
  const at::Tensor mean = torch::tensor({{0.3, -0.8}}, at::kDouble), log_std = torch::tensor({-0.5, 0.2}, at::kDouble);
  const at::Tensor u = torch::tensor({{0.9, -1.4}}, at::kDouble);
  const at::Tensor expected = Normal(mean, log_std).log_prob(u) - (1 - u.tanh().square()).log().sum(-1);
  EXPECT_TRUE(at::allclose(SquashedNormal(mean, log_std).log_prob(u.tanh()), expected, 1e-12, 1e-12));
}

TEST(SquashedNormalTest, SaturatedActionsStayFiniteWithFiniteGradients) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const at::Tensor mean = at::full({2, 1}, 50.0, at::TensorOptions(dtype)).requires_grad_();
    const SquashedNormal d(mean, at::zeros({1}, dtype));
    const at::Tensor actions = d.sample(seeded(2));
    EXPECT_LT(actions.max().item<double>(), 1.0);
    const at::Tensor log_prob = d.log_prob(torch::tensor({{1.0}, {-1.0}}, dtype));
    EXPECT_TRUE(log_prob.isfinite().all().item<bool>()) << log_prob;
    log_prob.sum().backward();
    EXPECT_TRUE(mean.grad().isfinite().all().item<bool>());
    EXPECT_TRUE(d.draw_with_gradient(seeded(3)).log_prob.isfinite().all().item<bool>());
  }
}

TEST(SquashedNormalTest, TheEntropyEstimateHasAnUnbiasedGradient) {
  // d/d(log_std) of the entropy of u is 1; the squashing term adds its mean slope, taken here by finite differences
  // with common random numbers.
  const std::int64_t n = 100000;
  const at::Tensor mean = at::full({n, 1}, 0.2, at::kDouble);
  const at::Tensor log_std = at::full({1}, -0.3, at::kDouble).requires_grad_();
  SquashedNormal(mean, log_std).entropy_estimate(seeded(4)).mean().backward();
  const auto entropy_at = [&](double x) {
    const SquashedNormal d(mean, at::full({1}, x, at::kDouble));
    return d.entropy_estimate(seeded(4)).mean().item<double>();
  };
  const double slope = (entropy_at(-0.3 + 1e-5) - entropy_at(-0.3 - 1e-5)) / 2e-5;
  EXPECT_NEAR(log_std.grad().item<double>(), slope, 1e-5);
  EXPECT_LT(slope, 0.95) << "squashing must take away from the slope 1 of the plain normal";
}

TEST(StateDependentNoiseTest, StandardDeviationIsThatOfTheLinearNoise) {
  const at::Tensor latent = torch::tensor({{1.0, -2.0}}, at::kDouble),
                   log_std = at::log(torch::tensor({{0.5}, {0.1}}, at::kDouble));
  const StateDependentNoise d(at::zeros({1, 1}, at::kDouble), latent, log_std);
  EXPECT_NEAR(d.log_std().item<double>(), 0.5 * std::log(1 * 0.25 + 4 * 0.01 + 1e-6), 1e-12);
}

TEST(StateDependentNoiseTest, WrongShapesAreRefused) {
  EXPECT_THROW(StateDependentNoise(at::zeros({4, 2}), at::zeros({4, 3}), at::zeros({2, 3})), ConfigError);
  EXPECT_THROW(StateDependentNoise(at::zeros({4, 2}), at::zeros({5, 3}), at::zeros({3, 2})), ConfigError);
}

}  // namespace
}  // namespace tandem::model
