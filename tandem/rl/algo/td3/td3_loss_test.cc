// TD3's objectives against loops in float64 over their formulas, down to the products of the networks.
#include "tandem/rl/algo/td3/td3_loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tandem/rl/algo/off_policy/critic_choice.h"
#include "tandem/rl/algo/testing/loop_perceptron.h"

namespace tandem::rl {
namespace {

using rl::testing::Numbers;
using rl::testing::perceptron;
using rl::testing::row_of;

constexpr std::int64_t kTd3Rows = 40;

Spec two_sided_spec() {
  Spec spec;
  spec.id = "Test-v0";
  spec.observation = {{.name = "obs", .type = ElementType::kFloat32, .shape = {3}, .low = {}, .high = {}}};
  spec.action = Box{{-1, -1}, {1, 1}};
  return spec;
}

// Networks and rows in float64, but for observations, which are float32 as ever. Weights and noise are large enough
// that both cuts cut.
struct Td3Case {
  explicit Td3Case(int critics) : policy(two_sided_spec(), networks, critics, 0.1, generator) {
    const at::NoGradGuard no_grad;
    at::manual_seed(7);
    targets.actor = std::make_shared<ObservationNetwork>(two_sided_spec(), networks, 2, generator);
    targets.critics = std::make_shared<ActionValues>(two_sided_spec(), networks, critics, generator);
    for (torch::nn::Module* module :
         std::initializer_list<torch::nn::Module*>{&policy, &*targets.actor, &*targets.critics}) {
      module->to(at::kDouble);
      for (at::Tensor& parameter : module->parameters()) parameter.mul_(2);
    }
    rows.observation = {at::randn({kTd3Rows, 3})};
    rows.next_observation = {at::randn({kTd3Rows, 3})};
    rows.action = at::rand({kTd3Rows, 2}, at::kDouble) * 2 - 1;
    rows.reward = at::randn({kTd3Rows}, at::kDouble);
    rows.discount = at::rand({kTd3Rows}, at::kDouble);
    rows.weight = at::rand({kTd3Rows}, at::kDouble);
    rows.noise = {at::randn({kTd3Rows, 2}, at::kDouble)};
  }
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(3);
  NetworkOptions networks{.hidden = {8, 5}};
  Td3Policy policy;
  Td3Targets targets;
  TransitionRows rows;
};

double value_of_pair(const ActionValues& critics, std::size_t which, Numbers observation, const Numbers& action) {
  observation.insert(observation.end(), action.begin(), action.end());
  return perceptron(*critics.networks()[which], std::move(observation)).front();
}

// The sides of the two cuts that some row is beyond.
struct Cuts {
  bool of_noise = false, of_action = false;
};

double target_of_row(const Td3Case& it, std::int64_t row, const Td3Options& options, Cuts& cuts) {
  const Numbers next = row_of(it.rows.next_observation[0], row), noise = row_of(it.rows.noise[0], row);
  Numbers action = perceptron(it.targets.actor->net(), next);
  for (std::size_t i = 0; i < action.size(); ++i) {
    double e = options.target_noise * noise[i];
    cuts.of_noise |= std::abs(e) > options.target_noise_clip;
    if (e > options.target_noise_clip) e = options.target_noise_clip;
    if (e < -options.target_noise_clip) e = -options.target_noise_clip;
    action[i] = std::tanh(action[i]) + e;
    cuts.of_action |= std::abs(action[i]) > 1;
    action[i] = action[i] > 1 ? 1 : action[i] < -1 ? -1 : action[i];
  }
  double least = value_of_pair(*it.targets.critics, 0, next, action);
  for (std::size_t i = 1; i < it.targets.critics->networks().size(); ++i)
    least = std::min(least, value_of_pair(*it.targets.critics, i, next, action));
  return it.rows.reward[row].item<double>() + it.rows.discount[row].item<double>() * least;
}

TEST(Td3LossTest, TheCriticsLossIsTheWeightedSquaredErrorFromTheLeastTargetOfANoisyAction) {
  for (const int critics : {1, 2, 3}) {
    Td3Case it(critics);
    Td3Options options;
    options.critics = critics;
    const std::vector<std::size_t> all = chosen_critics(options, 1);
    options.target_noise = 0.4;
    options.target_noise_clip = 0.3;
    double wanted = 0, value_sum = 0;
    Numbers errors;
    Cuts cuts;
    for (std::int64_t row = 0; row < kTd3Rows; ++row) {
      const double target = target_of_row(it, row, options, cuts);
      double error = 0;
      for (std::size_t i = 0; i < static_cast<std::size_t>(critics); ++i) {
        const double q =
            value_of_pair(it.policy.critics(), i, row_of(it.rows.observation[0], row), row_of(it.rows.action, row));
        wanted += it.rows.weight[row].item<double>() * (q - target) * (q - target) / kTd3Rows;
        value_sum += q / critics;
        error += std::abs(q - target) / critics;
      }
      errors.push_back(error);
    }
    ASSERT_TRUE(cuts.of_noise && cuts.of_action);
    OffPolicySums sums;
    std::vector<float> told;
    const learner::ShardLoss loss = td3_critic_loss(it.policy, it.targets, all, it.rows, options, sums, &told);
    EXPECT_NEAR(loss.loss.item<double>(), wanted, 1e-10 * std::max(1.0, wanted));
    EXPECT_EQ(loss.weight, kTd3Rows);
    EXPECT_NEAR(sums.value, value_sum, 1e-10 * kTd3Rows);
    ASSERT_EQ(told.size(), errors.size());
    for (std::size_t i = 0; i < errors.size(); ++i) EXPECT_NEAR(told[i], errors[i], 1e-5);
  }
}

// DDPG is one critic and no noise on targets.
TEST(Td3LossTest, WithoutNoiseTheTargetIsThatOfTheSlowActorsAction) {
  Td3Case it(1);
  Td3Options options;
  options.target_noise = 0;
  const std::vector<std::size_t> first{0};
  it.rows.noise[0].fill_(100);
  double wanted = 0;
  for (std::int64_t row = 0; row < kTd3Rows; ++row) {
    const Numbers next = row_of(it.rows.next_observation[0], row);
    Numbers action = perceptron(it.targets.actor->net(), next);
    for (double& each : action) each = std::tanh(each);
    const double target = it.rows.reward[row].item<double>() +
                          it.rows.discount[row].item<double>() * value_of_pair(*it.targets.critics, 0, next, action);
    const double q =
        value_of_pair(it.policy.critics(), 0, row_of(it.rows.observation[0], row), row_of(it.rows.action, row));
    wanted += it.rows.weight[row].item<double>() * (q - target) * (q - target) / kTd3Rows;
  }
  OffPolicySums sums;
  EXPECT_NEAR(td3_critic_loss(it.policy, it.targets, first, it.rows, options, sums, nullptr).loss.item<double>(),
              wanted, 1e-10 * std::max(1.0, wanted));
}

// Of the critics the first alone teaches the actor, and none of them learns from it.
TEST(Td3LossTest, TheActorsLossIsMinusTheFirstCriticsValueOfItsAction) {
  Td3Case it(2);
  double wanted = 0;
  for (std::int64_t row = 0; row < kTd3Rows; ++row) {
    const Numbers now = row_of(it.rows.observation[0], row);
    Numbers action = perceptron(it.policy.actor().net(), now);
    for (double& each : action) each = std::tanh(each);
    wanted -= value_of_pair(it.policy.critics(), 0, now, action) / kTd3Rows;
  }
  OffPolicySums sums;
  const learner::ShardLoss loss = td3_policy_loss(it.policy, it.rows, sums);
  EXPECT_NEAR(loss.loss.item<double>(), wanted, 1e-10);
  EXPECT_NEAR(sums.policy_loss, wanted * kTd3Rows, 1e-10 * kTd3Rows);
  loss.loss.backward();
  for (const auto& item : it.policy.named_parameters())
    EXPECT_EQ(item.value().grad().defined(), item.key().starts_with("actor")) << item.key();
}

}  // namespace
}  // namespace tandem::rl
