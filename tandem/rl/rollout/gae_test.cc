#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "tandem/rl/rollout/fragment.h"

namespace tandem::rl {
namespace {

Spec one_float() {
  Spec spec;
  spec.id = "Test-v0";
  spec.observation = {Leaf{.name = "obs", .type = ElementType::kFloat32, .shape = {1}, .low = {}, .high = {}}};
  spec.action = Discrete{2};
  return spec;
}

Fragment random_fragment(int steps, int rows) {
  torch::manual_seed(7);
  Fragment fragment(one_float(), steps, rows);
  fragment.value.copy_(torch::randn({steps + 1, rows}));
  fragment.reward.copy_(torch::randn({steps, rows}));
  fragment.done.copy_(torch::rand({steps, rows}) < 0.2);
  return fragment;
}

// The sum of equation 16, written out: the definition instead of the recursion.
double advantage_by_definition(const Fragment& f, int t, int row, double gamma, double lambda) {
  double sum = 0, factor = 1;
  for (int k = t; k < f.steps; ++k) {
    const bool done = f.done[k][row].item<int>() != 0;
    sum += factor * (f.reward[k][row].item<double>() + (done ? 0 : gamma * f.value[k + 1][row].item<double>()) -
                     f.value[k][row].item<double>());
    if (done) break;
    factor *= gamma * lambda;
  }
  return sum;
}

TEST(GaeTest, EqualsTheSumOfDiscountedResidualsUpToTheEpisodesEnd) {
  Fragment fragment = random_fragment(12, 5);
  compute_gae(fragment, 0.97, 0.9);
  for (int t = 0; t < 12; ++t) {
    for (int row = 0; row < 5; ++row) {
      EXPECT_NEAR(fragment.advantage[t][row].item<double>(), advantage_by_definition(fragment, t, row, 0.97, 0.9),
                  1e-5);
    }
  }
}

TEST(GaeTest, TheValueTargetIsAdvantagePlusValue) {
  Fragment fragment = random_fragment(6, 3);
  compute_gae(fragment, 0.99, 0.95);
  EXPECT_TRUE(torch::allclose(fragment.value_target, fragment.advantage + fragment.value.slice(0, 0, 6)));
}

TEST(GaeTest, LambdaOneGivesTheDiscountedReturn) {
  Fragment fragment = random_fragment(8, 1);
  fragment.done.zero_();
  compute_gae(fragment, 0.9, 1.0);
  double expected = fragment.value[8][0].item<double>();
  for (int t = 7; t >= 0; --t) expected = fragment.reward[t][0].item<double>() + 0.9 * expected;
  EXPECT_NEAR(fragment.value_target[0][0].item<double>(), expected, 1e-5);
}

}  // namespace
}  // namespace tandem::rl
