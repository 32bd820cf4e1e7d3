// SAC's objectives against loops in float64 over their formulas.
#include "tandem/rl/algo/sac/sac_loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace tandem::rl {
namespace {

constexpr std::int64_t kRows = 12;

Spec box_spec() {
  Spec spec;
  spec.id = "Test-v0";
  spec.observation = {{.name = "obs", .type = ElementType::kFloat32, .shape = {3}, .low = {}, .high = {}}};
  spec.action = Box{{-1, -1}, {1, 1}};
  return spec;
}

// Networks and rows in float64, but for observations, which are float32 as ever.
struct Case {
  Case() {
    const at::NoGradGuard no_grad;
    at::manual_seed(4);
    rows.observation = {at::randn({kRows, 3})};
    rows.next_observation = {at::randn({kRows, 3})};
    rows.action = at::rand({kRows, 2}, at::kDouble) * 2 - 1;
    rows.reward = at::randn({kRows}, at::kDouble);
    rows.discount = at::rand({kRows}, at::kDouble);
    rows.weight = at::rand({kRows}, at::kDouble);
    rows.noise = {at::randn({kRows, 2}, at::kDouble), at::randn({kRows, 2}, at::kDouble)};
    policy.to(at::kDouble);
    policy.log_temperature().fill_(std::log(0.3));  // which was rounded to float32
    targets.to(at::kDouble);
  }
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(1);
  NetworkOptions networks{.hidden = {8}};
  SacPolicy policy{box_spec(), networks, 2, 0.3, generator};
  ActionValues targets{box_spec(), networks, 2, generator};
  TransitionRows rows;
};

struct Drawn {
  double action[2], log_prob;
};

Drawn drawn(SacPolicy& policy, const at::Tensor& observation, const at::Tensor& noise, std::int64_t row) {
  const auto parameters = policy.actions({observation}).parameters();
  Drawn drawn{.action = {}, .log_prob = 0};
  for (std::int64_t i = 0; i < 2; ++i) {
    const double mean = parameters[0][row][i].item<double>(), log_std = parameters[1][row][i].item<double>();
    const double e = noise[row][i].item<double>(), u = mean + std::exp(log_std) * e, a = std::tanh(u);
    drawn.action[i] = a;
    drawn.log_prob += -e * e / 2 - log_std - std::log(2 * std::numbers::pi) / 2 - std::log(1 - a * a);
  }
  return drawn;
}

double value(ActionValues& critics, int which, const at::Tensor& observation, const double* action, std::int64_t row) {
  const at::Tensor taken = at::tensor({action[0], action[1]}, at::kDouble).unsqueeze(0);
  return critics.forward(critics.encode({observation.narrow(0, row, 1)}), taken)[which][0].item<double>();
}

TEST(SacLossTest, TheCriticsLossIsTheWeightedSquaredErrorOfBoth) {
  Case it;
  double wanted = 0, value_sum = 0;
  std::vector<double> errors;
  for (std::int64_t row = 0; row < kRows; ++row) {
    const Drawn next = drawn(it.policy, it.rows.next_observation[0], it.rows.noise[0], row);
    const double least = std::min(value(it.targets, 0, it.rows.next_observation[0], next.action, row),
                                  value(it.targets, 1, it.rows.next_observation[0], next.action, row));
    const double target =
        it.rows.reward[row].item<double>() + it.rows.discount[row].item<double>() * (least - 0.3 * next.log_prob);
    const double action[2] = {it.rows.action[row][0].item<double>(), it.rows.action[row][1].item<double>()};
    double error = 0;
    for (int critic : {0, 1}) {
      const double q = value(it.policy.critics(), critic, it.rows.observation[0], action, row);
      wanted += 0.5 * it.rows.weight[row].item<double>() * (q - target) * (q - target) / kRows;
      value_sum += q / 2;
      error += std::abs(q - target) / 2;
    }
    errors.push_back(error);
  }
  OffPolicySums sums;
  std::vector<float> told;
  const learner::ShardLoss loss = sac_critic_loss(it.policy, it.targets, it.rows, {}, sums, &told);
  EXPECT_NEAR(loss.loss.item<double>(), wanted, 1e-10);
  EXPECT_EQ(loss.weight, kRows);
  EXPECT_NEAR(sums.value, value_sum, 1e-10);
  ASSERT_EQ(told.size(), errors.size());
  for (std::size_t i = 0; i < errors.size(); ++i) EXPECT_NEAR(told[i], errors[i], 1e-5);
}

TEST(SacLossTest, TheActorsLossIsTheSoftValueAndTheTemperaturesTheSurplusOfEntropy) {
  Case it;
  SacOptions options;
  options.target_entropy = -1.5;
  double policy_loss = 0, temperature_loss = 0;
  for (std::int64_t row = 0; row < kRows; ++row) {
    const Drawn now = drawn(it.policy, it.rows.observation[0], it.rows.noise[1], row);
    const double least = std::min(value(it.policy.critics(), 0, it.rows.observation[0], now.action, row),
                                  value(it.policy.critics(), 1, it.rows.observation[0], now.action, row));
    policy_loss += (0.3 * now.log_prob - least) / kRows;
    temperature_loss -= std::log(0.3) * (now.log_prob - 1.5) / kRows;
  }
  OffPolicySums sums;
  const learner::ShardLoss loss = sac_policy_loss(it.policy, it.rows, options, sums);
  EXPECT_NEAR(sums.policy_loss / kRows, policy_loss, 1e-10);
  EXPECT_NEAR(loss.loss.item<double>(), policy_loss + temperature_loss, 1e-10);

  options.fixed_temperature = 0.3;
  OffPolicySums fixed;
  EXPECT_NEAR(sac_policy_loss(it.policy, it.rows, options, fixed).loss.item<double>(), policy_loss, 1e-10);
}

// The actor learns from the critics, and they are not to learn what it would like to hear.
TEST(SacLossTest, TheActorsStepTouchesNoCriticAndTheCriticsStepNoActor) {
  Case it;
  OffPolicySums sums;
  const auto touched = [&](const std::string& begin) {
    bool any = false;
    for (const auto& item : it.policy.named_parameters())
      any = any || (item.key().starts_with(begin) && item.value().grad().defined());
    return any;
  };
  sac_policy_loss(it.policy, it.rows, {}, sums).loss.backward();
  EXPECT_TRUE(touched("actor"));
  EXPECT_TRUE(touched("log_temperature"));
  EXPECT_FALSE(touched("critics"));
  it.policy.zero_grad();
  sac_critic_loss(it.policy, it.targets, it.rows, {}, sums, nullptr).loss.backward();
  EXPECT_TRUE(touched("critics"));
  EXPECT_FALSE(touched("actor"));
  EXPECT_FALSE(touched("log_temperature"));
}

}  // namespace
}  // namespace tandem::rl
