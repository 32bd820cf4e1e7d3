#include "tandem/rl/algo/ppo_kernel.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "tandem/model/categorical.h"
#include "tandem/model/normal.h"

namespace tandem::rl {
namespace {

constexpr std::int64_t kRows = 50;

struct Problem {
  PolicyOutput output;
  PpoRows rows;
  PpoOptions options;
  PpoMinibatch minibatch;
};

torch::Tensor leaf(const torch::Tensor& values) { return values.detach().clone().set_requires_grad(true); }

// Rows with ratios inside and outside of the clip range, on both sides.
Problem random_problem(ActionFamily family, std::int64_t size, torch::Dtype dtype, int seed) {
  torch::manual_seed(seed);
  const auto real = torch::TensorOptions().dtype(dtype);
  Problem p;
  p.output.action_parameters = {leaf(torch::randn({kRows, size}, real))};
  if (family == ActionFamily::kNormal) p.output.action_parameters.push_back(leaf(torch::randn({size}, real) * 0.3));
  p.output.value = leaf(torch::randn({kRows}, real));
  p.rows.action =
      family == ActionFamily::kNormal ? torch::randn({kRows, size}, real) : torch::randint(size, {kRows}, torch::kLong);
  const torch::Tensor log_prob =
      family == ActionFamily::kNormal
          ? model::Normal(p.output.action_parameters[0], p.output.action_parameters[1]).log_prob(p.rows.action)
          : model::Categorical(p.output.action_parameters[0]).log_prob(p.rows.action);
  p.rows.log_prob = (log_prob + 0.3 * torch::randn({kRows}, real)).detach();
  p.rows.value = torch::randn({kRows}, real);
  p.rows.advantage = torch::randn({kRows}, real) * 2 + 1;
  p.rows.value_target = torch::randn({kRows}, real);
  p.options.entropy_coef = 0.02;
  p.options.value_coef = 0.7;
  p.minibatch = {.clip_range = 0.2, .advantage_mean = 0.4, .advantage_scale = 1.7};
  return p;
}

// ppo_loss() with a policy that gives the problem's own tensors.
struct Given : ActorCritic {
  Given(const Spec& spec, const PolicyOutput& output) : ActorCritic(spec), output_(output) {}
  PolicyOutput forward(const Observation&) override { return output_; }
  PolicyOutput output_;
};

Spec spec_for(ActionFamily family, std::int64_t size) {
  Spec spec;
  spec.id = "Test-v0";
  spec.observation = {Leaf{.name = "obs", .type = ElementType::kFloat32, .shape = {1}, .low = {}, .high = {}}};
  const auto n = static_cast<std::size_t>(size);
  if (family == ActionFamily::kNormal) spec.action = Box{std::vector<double>(n, -1), std::vector<double>(n, 1)};
  if (family == ActionFamily::kCategorical) spec.action = Discrete{size};
  return spec;
}

torch::Tensor defined_loss(const Problem& p, ActionFamily family, std::int64_t size, PpoSums& sums) {
  Given policy(spec_for(family, size), p.output);
  learner::ShardBatch batch;
  batch.rows = batch.valid_rows = kRows;
  batch.columns = {{"action", p.rows.action},
                   {"log_prob", p.rows.log_prob},
                   {"value", p.rows.value},
                   {"advantage", p.rows.advantage},
                   {"value_target", p.rows.value_target},
                   {"observation", torch::zeros({kRows, 1})}};
  return ppo_loss(policy, batch, p.options, p.minibatch, sums).loss;
}

std::vector<torch::Tensor> gradients_of(const torch::Tensor& loss, const PolicyOutput& output) {
  std::vector<torch::Tensor> inputs = output.action_parameters;
  inputs.push_back(output.value);
  return torch::autograd::grad({loss * 3}, inputs);
}

void expect_equal(ActionFamily family, std::int64_t size, torch::Dtype dtype, double tolerance) {
  for (int seed = 0; seed < 20; ++seed) {
    Problem p = random_problem(family, size, dtype, seed);
    if (seed % 2 == 1) p.options.clip_range_value = 0.3;
    PpoSums expected_sums, sums;
    const torch::Tensor expected = defined_loss(p, family, size, expected_sums);
    const torch::Tensor loss = ppo_kernel_loss(family, p.output, p.rows, p.options, p.minibatch, sums);
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), tolerance);
    const std::vector<torch::Tensor> wanted = gradients_of(expected, p.output), got = gradients_of(loss, p.output);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_LT((wanted[i] - got[i]).abs().max().item<double>(), tolerance) << "gradient " << i << ", seed " << seed;
    }
    const double loose = 1e-4 * kRows;  // the definition's sums pass through float32 in places
    EXPECT_NEAR(sums.policy_loss, expected_sums.policy_loss, loose);
    EXPECT_NEAR(sums.value_loss, expected_sums.value_loss, loose);
    EXPECT_NEAR(sums.entropy, expected_sums.entropy, loose);
    EXPECT_NEAR(sums.approx_kl, expected_sums.approx_kl, loose);
    EXPECT_NEAR(sums.clipped, expected_sums.clipped, loose);
    EXPECT_GT(sums.clipped, 0) << "the clipped branch is part of the test";
  }
}

TEST(PpoKernelTest, CategoricalLossAndGradientsAreThoseOfTheDefinition) {
  expect_equal(ActionFamily::kCategorical, 2, torch::kDouble, 1e-10);
  expect_equal(ActionFamily::kCategorical, 7, torch::kDouble, 1e-10);
  expect_equal(ActionFamily::kCategorical, 3, torch::kFloat, 2e-5);
}

TEST(PpoKernelTest, NormalLossAndGradientsAreThoseOfTheDefinition) {
  expect_equal(ActionFamily::kNormal, 1, torch::kDouble, 1e-10);
  expect_equal(ActionFamily::kNormal, 5, torch::kDouble, 1e-10);
  expect_equal(ActionFamily::kNormal, 2, torch::kFloat, 1e-4);
}

TEST(PpoKernelTest, OtherPoliciesUseTheDefinition) {
  const Problem p = random_problem(ActionFamily::kCategorical, 2, torch::kFloat, 0);
  const Given policy(spec_for(ActionFamily::kCategorical, 2), p.output);
  EXPECT_FALSE(has_ppo_kernel(policy, p.output, p.rows));
}

}  // namespace
}  // namespace tandem::rl
