// The losses and gradients of SAC and TD3 by kernels against those of autograd, which are the definition.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tandem/base/text.h"
#include "tandem/rl/algo/sac/fused_sac.h"
#include "tandem/rl/algo/sac/sac_loss.h"
#include "tandem/rl/algo/td3/fused_td3.h"

namespace tandem::rl {
namespace {

// No multiple of a block, and more than one.
constexpr std::int64_t kRowsOfCritics = 70;

Spec two_sides() {
  Spec spec;
  spec.id = "Test-v0";
  spec.observation = {{.name = "obs", .type = ElementType::kFloat32, .shape = {5}, .low = {}, .high = {}}};
  spec.action = Box{{-1, -2}, {1, 3}};
  return spec;
}

TransitionRows random_rows(int noises) {
  TransitionRows rows = make_transitions(two_sides(), kRowsOfCritics, noises);
  for (at::Tensor* each : {&rows.observation[0], &rows.next_observation[0], &rows.reward}) each->normal_();
  for (at::Tensor& noise : rows.noise) noise.normal_();
  rows.action.uniform_(-1, 1);
  rows.discount.bernoulli_(0.8).mul_(0.97);
  rows.weight.uniform_(0.2, 1);
  return rows;
}

// First weights are alike in size, so that nothing decides alone; the gradients exist, as a replica's do.
void shake(torch::nn::Module& module) {
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : module.parameters()) {
    parameter.add_(at::randn_like(parameter), 0.2);
    parameter.mutable_grad() = at::zeros_like(parameter);
  }
}

// A gradient and its name. Where a loss does not concern a parameter, autograd gives it none and kernels zeros.
using Gradients = std::vector<std::pair<std::string, at::Tensor>>;
Gradients take_gradients(torch::nn::Module& module) {
  Gradients all;
  for (const auto& item : module.named_parameters()) {
    const at::Tensor& grad = item.value().grad();
    all.emplace_back(item.key(), grad.defined() ? grad.clone() : at::zeros_like(item.value()));
    item.value().mutable_grad() = at::zeros_like(item.value());
  }
  return all;
}

// `wanted` is a mean of rows, and written gradients are their sum.
void expect_alike(const learner::ShardLoss& wanted, const OffPolicySums& wanted_sums, torch::nn::Module& policy,
                  const std::function<learner::WrittenLoss(OffPolicySums&)>& write) {
  (wanted.loss * static_cast<double>(kRowsOfCritics)).backward();
  const Gradients expected = take_gradients(policy);
  OffPolicySums sums;
  const double told = write(sums).loss;
  const Gradients written = take_gradients(policy);
  EXPECT_NEAR(told, wanted.loss.item<double>(), 2e-5 * std::max(1.0, std::abs(told)));
  EXPECT_NEAR(sums.value, wanted_sums.value, 1e-3);
  EXPECT_NEAR(sums.policy_loss, wanted_sums.policy_loss, 1e-3);
  EXPECT_NEAR(sums.entropy, wanted_sums.entropy, 1e-3);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto& [name, gradient] = expected[i];
    const double size = std::max(1.0, gradient.abs().max().item<double>());
    EXPECT_LE((written[i].second - gradient).abs().max().item<double>(), 2e-5 * size) << name;
  }
  const auto is_other = [](const auto& named) { return named.second.abs().max().template item<double>() > 1e-3; };
  EXPECT_GT(std::ranges::count_if(expected, is_other), 3) << "too few gradients to compare";
}

struct CriticsCase {
  int critics = 2;
  CriticNorm norm = CriticNorm::kNone;
  std::vector<std::size_t> chosen{0, 1};
  ActorValue actor_value = ActorValue::kLeast;
  std::optional<double> fixed_temperature = {};
};
const std::vector<CriticsCase> kCases{
    {},
    {.fixed_temperature = 0.3},
    {.critics = 4, .norm = CriticNorm::kLayer, .chosen = {1, 3}, .actor_value = ActorValue::kMean},
    {.critics = 1, .chosen = {0}}};

NetworkOptions networks_of(const CriticsCase& its) { return {.hidden = {33, 20}, .critic_norm = its.norm}; }

TEST(FusedCriticsTest, BothLossesOfSacAndTheirGradientsAreThoseOfAutograd) {
  for (const CriticsCase& its : kCases) {
    SCOPED_TRACE(concat(its.critics, " critics, norm ", static_cast<int>(its.norm)));
    at::manual_seed(6);
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(4);
    SacOptions options;
    options.critics = its.critics;
    options.actor_value = its.actor_value;
    options.fixed_temperature = its.fixed_temperature;
    SacPolicy policy(two_sides(), networks_of(its), its.critics, 0.4, generator);
    ActionValues targets(two_sides(), networks_of(its), its.critics, generator);
    shake(policy);
    const TransitionRows rows = random_rows(2);
    FusedSac fused(policy, targets, kRowsOfCritics + 3, options, detect_instruction_set());
    OffPolicySums of_critics, of_policy;
    std::vector<float> wanted_errors, errors;
    const auto critics = sac_critic_loss(policy, targets, its.chosen, rows, options, of_critics, &wanted_errors);
    expect_alike(critics, of_critics, policy,
                 [&](OffPolicySums& sums) { return fused.critic_loss(rows, its.chosen, sums, &errors); });
    ASSERT_EQ(errors.size(), wanted_errors.size());
    for (std::size_t i = 0; i < errors.size(); ++i) EXPECT_NEAR(errors[i], wanted_errors[i], 2e-5) << "row " << i;
    expect_alike(sac_policy_loss(policy, rows, options, of_policy), of_policy, policy,
                 [&](OffPolicySums& sums) { return fused.policy_loss(rows, sums); });
  }
}

TEST(FusedCriticsTest, BothLossesOfTd3AndTheirGradientsAreThoseOfAutograd) {
  for (const CriticsCase& its : kCases) {
    SCOPED_TRACE(concat(its.critics, " critics, norm ", static_cast<int>(its.norm)));
    at::manual_seed(7);
    at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(5);
    Td3Options options;
    options.critics = its.critics;
    Td3Policy policy(two_sides(), networks_of(its), its.critics, 0.1, generator);
    const Td3Targets targets{
        .actor = std::make_shared<ObservationNetwork>(two_sides(), networks_of(its), 2, generator),
        .critics = std::make_shared<ActionValues>(two_sides(), networks_of(its), its.critics, generator)};
    shake(policy);
    const TransitionRows rows = random_rows(1);
    FusedTd3 fused(policy, targets, kRowsOfCritics + 3, options, detect_instruction_set());
    OffPolicySums of_critics, of_policy;
    std::vector<float> wanted_errors, errors;
    const auto critics = td3_critic_loss(policy, targets, its.chosen, rows, options, of_critics, &wanted_errors);
    expect_alike(critics, of_critics, policy,
                 [&](OffPolicySums& sums) { return fused.critic_loss(rows, its.chosen, sums, &errors); });
    ASSERT_EQ(errors.size(), wanted_errors.size());
    for (std::size_t i = 0; i < errors.size(); ++i) EXPECT_NEAR(errors[i], wanted_errors[i], 2e-5) << "row " << i;
    expect_alike(td3_policy_loss(policy, rows, of_policy), of_policy, policy,
                 [&](OffPolicySums& sums) { return fused.policy_loss(rows, sums); });
  }
}

}  // namespace
}  // namespace tandem::rl
