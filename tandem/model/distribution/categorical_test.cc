#include "tandem/model/distribution/categorical.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "tandem/base/error.h"
#include "tandem/model/testing/seeded.h"

namespace tandem::model {
namespace {

TEST(CategoricalTest, LogProbsAreThoseOfTheWorkedExample) {
  const Categorical d(at::log(torch::tensor({{1.0, 2.0, 5.0}}, at::kDouble)));
  EXPECT_NEAR(d.log_prob(torch::tensor({2}, at::kLong)).item<double>(), std::log(5.0 / 8), 1e-12);
  EXPECT_NEAR(d.entropy().item<double>(), -(1 * std::log(1. / 8) + 2 * std::log(2. / 8) + 5 * std::log(5. / 8)) / 8,
              1e-12);
  EXPECT_EQ(d.mode().item<std::int64_t>(), 2);
}

TEST(CategoricalTest, AMaskLeavesTheDistributionOverTheAllowedChoices) {
  const at::Tensor logits = torch::tensor({{0.3, 9.0, -1.0, 0.8}}, at::kDouble);
  const at::Tensor mask = torch::tensor({{true, false, true, true}});
  const Categorical masked(logits, mask);
  const Categorical alone(logits.index_select(1, torch::tensor({0, 2, 3}, at::kLong)));
  EXPECT_NEAR(masked.entropy().item<double>(), alone.entropy().item<double>(), 1e-12);
  EXPECT_NEAR(masked.log_prob(torch::tensor({3}, at::kLong)).item<double>(),
              alone.log_prob(torch::tensor({2}, at::kLong)).item<double>(), 1e-12);
  EXPECT_EQ(masked.log_prob(torch::tensor({1}, at::kLong)).item<double>(), -INFINITY);
  EXPECT_EQ(masked.mode().item<std::int64_t>(), 3);
}

TEST(CategoricalTest, MaskedLogitsGetNoGradientAndNoNan) {
  const at::Tensor logits = torch::tensor({{0.3, 9.0, -1.0}, {1.0, 2.0, 3.0}}, at::kFloat).requires_grad_();
  const at::Tensor mask = torch::tensor({{1, 0, 1}, {0, 0, 1}}, at::kByte);
  const Categorical d(logits, mask);
  (d.entropy() * 3 + d.log_prob(torch::tensor({0, 2}, at::kLong)) + d.kl(Categorical(logits.detach() * 2, mask)))
      .sum()
      .backward();
  EXPECT_TRUE(logits.grad().isfinite().all().item<bool>());
  EXPECT_EQ(logits.grad()[0][1].item<float>(), 0);
  EXPECT_GT(logits.grad()[0][0].abs().item<float>(), 0.1);
  EXPECT_EQ(logits.grad()[1].abs().sum().item<float>(), 0) << "a single allowed choice is certain";
}

TEST(CategoricalTest, KlIsInfiniteWhereTheOtherExcludesWhatThisAllows) {
  const at::Tensor logits = at::zeros({1, 3});
  const Categorical all(logits), two(logits, torch::tensor({1, 1, 0}, at::kByte));
  EXPECT_EQ(all.kl(two).item<float>(), INFINITY);
  EXPECT_NEAR(two.kl(all).item<float>(), std::log(3.0 / 2), 1e-6);
}

// The worked example of two choices that are left over.
TEST(CategoricalTest, ALogitOfMinusInfinityExcludesAsAMaskDoes) {
  const double no = -INFINITY;
  const at::Tensor logits = torch::tensor({0.0, no, 0.0}, at::kDouble).requires_grad_(),
                   others = torch::tensor({1.0, no, 0.0}, at::kDouble).requires_grad_();
  const Categorical one(logits), other(others);
  EXPECT_NEAR(one.entropy().item<double>(), std::log(2.0), 1e-12);
  EXPECT_NEAR(one.kl(other).item<double>(), 0.1201145, 1e-6);
  EXPECT_EQ(one.log_prob(torch::tensor(1)).item<double>(), no);
  EXPECT_EQ(one.kl(Categorical(torch::zeros({3}, at::kDouble))).item<double>(), std::log(3.0) - std::log(2.0));
  EXPECT_EQ(Categorical(torch::zeros({3}, at::kDouble)).kl(one).item<double>(), INFINITY);

  const Categorical masked(torch::tensor({0.5, 9.0, no, 0.5}, at::kDouble), torch::tensor({1, 0, 1, 1}, at::kByte));
  EXPECT_NEAR(masked.entropy().item<double>(), std::log(2.0), 1e-12) << "a mask that allows it changes nothing";
  const MultiCategorical several(torch::tensor({0.0, no, 0.0, no, 3.0}, at::kDouble), {3, 2});
  EXPECT_NEAR(several.entropy().item<double>(), std::log(2.0), 1e-12);
  EXPECT_EQ(several.kl(several).item<double>(), 0);

  (other.entropy() * 1e6 + one.kl(other) + other.log_prob(torch::tensor(0))).backward();
  EXPECT_TRUE(logits.grad().isfinite().all().item<bool>()) << logits.grad();
  EXPECT_TRUE(others.grad().isfinite().all().item<bool>()) << others.grad();
  EXPECT_EQ(others.grad()[1].item<double>(), 0);
}

// What entropy() and kl() were before they knew of minus infinity: recorded runs keep their bits, and those of
// gradients, whose last bits depend on the order in which autograd adds them up.
TEST(CategoricalTest, FiniteLogitsHaveTheBitsOfThePlainFormulas) {
  const at::Tensor actions = at::randint(7, {200}, seeded(7), at::kLong), other = at::randn({200, 7}, seeded(9));
  for (const bool has_mask : {false, true}) {
    const at::Tensor logits = (at::randn({200, 7}, seeded(8)) * 3).requires_grad_(),
                     same = logits.detach().clone().requires_grad_();
    const at::Tensor mask = has_mask ? (at::arange(7) != 3).expand({200, 7}) : at::Tensor();
    const at::Tensor taken = actions.masked_fill(actions == 3, 0);
    const Categorical d(logits, mask), from(other, mask);
    const at::Tensor d_log_prob = d.log_prob(taken), d_entropy = d.entropy(), d_kl = from.kl(d), d_reverse = d.kl(from);

    const auto log_probs_of = [&](const at::Tensor& of) {
      return at::log_softmax(has_mask ? of.masked_fill(mask == 0, -INFINITY) : of, -1);
    };
    const auto finite = [&](const at::Tensor& of) { return has_mask ? of.masked_fill(mask == 0, 0) : of; };
    const at::Tensor plain = log_probs_of(same), plain_other = log_probs_of(other);
    const at::Tensor log_prob = pick(plain, taken.unsqueeze(-1)).squeeze(-1),
                     entropy = -(plain.exp() * finite(plain)).sum(-1);
    const at::Tensor difference = finite(plain_other - plain), kl = (plain_other.exp() * difference).sum(-1);
    const at::Tensor back = finite(plain - plain_other), reverse = (plain.exp() * back).sum(-1);
    EXPECT_TRUE(d_log_prob.equal(log_prob) && d_entropy.equal(entropy) && d_kl.equal(kl) && d_reverse.equal(reverse));
    (d_log_prob * 0.7 + d_entropy * 0.3 + d_kl + d_reverse).sum().backward();
    (log_prob * 0.7 + entropy * 0.3 + kl + reverse).sum().backward();
    EXPECT_TRUE(logits.grad().equal(same.grad())) << has_mask;
  }
}

TEST(CategoricalTest, SamplesFollowTheProbabilitiesAndNeverTheMask) {
  const std::int64_t rows = 100000;
  const at::Tensor logits = at::log(torch::tensor({0.1, 0.2, 0.3, 0.4}, at::kDouble)).expand({rows, 4});
  const Categorical d(logits, torch::tensor({1, 1, 0, 1}, at::kByte));
  const at::Tensor counts = at::bincount(d.sample(seeded(1)), {}, 4).to(at::kDouble);
  const std::vector<double> expected{0.1 / 0.7, 0.2 / 0.7, 0, 0.4 / 0.7};
  for (int i = 0; i < 4; ++i) {
    const double sigma = std::sqrt(rows * expected[i] * (1 - expected[i]));
    EXPECT_NEAR(counts[i].item<double>(), rows * expected[i], 4.5 * sigma) << "choice " << i;
  }
}

TEST(CategoricalTest, LargeLogitsDoNotOverflow) {
  const Categorical d(torch::tensor({{5000.0F, 4999.0F, -5000.0F}}));
  EXPECT_NEAR(d.log_prob(torch::tensor({1}, at::kLong)).item<float>(), -1.3132617F, 1e-5);
  EXPECT_NEAR(d.entropy().item<float>(), 0.5822032F, 1e-5);
}

TEST(CategoricalTest, ActionsMayHaveATrailingDimensionOfOne) {
  const Categorical d(at::randn({6, 3}));
  const at::Tensor actions = d.sample(seeded(2));
  EXPECT_TRUE(d.log_prob(actions.unsqueeze(-1)).equal(d.log_prob(actions)));
}

TEST(CategoricalTest, WrongMasksAndActionsAreRefused) {
  const at::Tensor logits = at::zeros({2, 3});
  EXPECT_THROW(Categorical(logits, at::ones({2, 4}, at::kByte)), ConfigError);
  EXPECT_THROW(Categorical(logits, at::ones({2, 3})), ConfigError);
  EXPECT_THROW(Categorical(logits, torch::tensor({{1, 1, 1}, {0, 0, 0}}, at::kByte)), ConfigError);
  EXPECT_THROW(Categorical(at::zeros({2, 3}, at::kLong)), ConfigError);
  EXPECT_THROW((void)Categorical(logits).log_prob(at::zeros({2})), ConfigError);
}

TEST(MultiCategoricalTest, IsTheProductOfItsChoices) {
  const at::Tensor logits = at::randn({7, 9}, seeded(3), at::kDouble);
  const at::Tensor mask = torch::tensor({1, 0, 1, 1, 1, 0, 1, 1, 1}, at::kByte);
  const MultiCategorical whole(logits, {3, 2, 4}, mask);
  const Categorical first(logits.slice(1, 0, 3), mask.slice(0, 0, 3)),
      second(logits.slice(1, 3, 5), mask.slice(0, 3, 5)), third(logits.slice(1, 5, 9), mask.slice(0, 5, 9));
  const at::Tensor actions = whole.sample(seeded(4));
  ASSERT_EQ(actions.sizes(), (std::vector<std::int64_t>{7, 3}));
  const at::Tensor expected = first.log_prob(actions.select(1, 0)) + second.log_prob(actions.select(1, 1)) +
                              third.log_prob(actions.select(1, 2));
  EXPECT_TRUE(at::allclose(whole.log_prob(actions), expected, 1e-12, 1e-12));
  EXPECT_TRUE(at::allclose(whole.entropy(), first.entropy() + second.entropy() + third.entropy(), 1e-12, 1e-12));
  EXPECT_TRUE(whole.mode().equal(at::stack({first.mode(), second.mode(), third.mode()}, 1)));
}

TEST(MultiCategoricalTest, NeverDrawsAnOptionThatAChoiceDoesNotHave) {
  const MultiCategorical d(at::zeros({20000, 6}), {1, 2, 3});
  const at::Tensor actions = d.sample(seeded(5));
  EXPECT_EQ(std::get<0>(actions.max(0)).equal(torch::tensor({0, 1, 2}, at::kLong)), true);
}

TEST(MultiCategoricalTest, EqualChoicesNeedNoPaddingAndGiveTheSame) {
  const at::Tensor logits = at::randn({5, 6}, seeded(6), at::kDouble);
  const MultiCategorical d(logits, {3, 3});
  const at::Tensor actions = d.sample(seeded(7));
  const at::Tensor expected = Categorical(logits.slice(1, 0, 3)).log_prob(actions.select(1, 0)) +
                              Categorical(logits.slice(1, 3, 6)).log_prob(actions.select(1, 1));
  EXPECT_TRUE(at::allclose(d.log_prob(actions), expected, 1e-12, 1e-12));
}

TEST(MultiCategoricalTest, WrongSizesAreRefused) {
  EXPECT_THROW(MultiCategorical(at::zeros({2, 6}), {3, 2}), ConfigError);
  EXPECT_THROW(MultiCategorical(at::zeros({2, 3}), {3, 0}), ConfigError);
  EXPECT_THROW(MultiCategorical(at::zeros({2, 5}), {3, 2}, torch::tensor({1, 1, 1, 0, 0}, at::kByte)), ConfigError);
  EXPECT_THROW((void)MultiCategorical(at::zeros({2, 5}), {3, 2}).kl(MultiCategorical(at::zeros({2, 5}), {2, 3})),
               ConfigError);
}

}  // namespace
}  // namespace tandem::model
