// The objectives of SAC for one choice against loops in float64 over their formulas.
#include "tandem/rl/algo/sac/discrete_sac_loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tandem/rl/algo/testing/has_gradients.h"

namespace tandem::rl {
namespace {

constexpr std::int64_t kChosenRows = 12, kFourChoices = 4;

Spec choice_spec(bool has_mask) {
  Spec spec;
  spec.id = "Test-v0";
  spec.observation = {{.name = "obs", .type = ElementType::kFloat32, .shape = {3}, .low = {}, .high = {}}};
  spec.action = Discrete{kFourChoices};
  spec.has_action_mask = has_mask;
  return spec;
}

// Networks and rows in float64, but for observations, which are float32 as ever. With masks every row forbids one
// choice, never the one that was taken.
struct Choosing {
  explicit Choosing(bool has_mask) : spec(choice_spec(has_mask)) {
    const at::NoGradGuard no_grad;
    at::manual_seed(4);
    rows.observation = {at::randn({kChosenRows, 3})};
    rows.next_observation = {at::randn({kChosenRows, 3})};
    rows.action = at::randint(0, kFourChoices, {kChosenRows}, at::kLong);
    rows.reward = at::randn({kChosenRows}, at::kDouble);
    rows.discount = at::rand({kChosenRows}, at::kDouble);
    rows.weight = at::rand({kChosenRows}, at::kDouble);
    if (has_mask) {
      rows.action_mask = at::ones({kChosenRows, kFourChoices}, at::kByte)
                             .scatter(1, ((rows.action + 1) % kFourChoices).view({-1, 1}), 0);
      rows.next_action_mask = at::ones({kChosenRows, kFourChoices}, at::kByte)
                                  .scatter(1, ((rows.action + 2) % kFourChoices).view({-1, 1}), 0);
    }
    policy.to(at::kDouble);
    policy.log_temperature().fill_(std::log(0.3));  // which was rounded to float32
    targets.to(at::kDouble);
  }
  const Spec spec;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(1);
  NetworkOptions networks{.hidden = {8}};
  DiscreteSacPolicy policy{spec, networks, 2, 0.3, generator};
  ChoiceValues targets{spec, networks, 2, generator};
  TransitionRows rows;
};

// The probabilities of a row's choices, 0 for forbidden ones, and the least values of all.
struct ChoiceRow {
  double probability[kFourChoices], least[kFourChoices];
  [[nodiscard]] double expected(double temperature) const {  // of least - temperature * log p
    double sum = 0;
    for (std::int64_t a = 0; a < kFourChoices; ++a) {
      const double p = probability[a];
      if (p > 0) sum += p * (least[a] - temperature * std::log(p));
    }
    return sum;
  }
  [[nodiscard]] double entropy() const {
    double sum = 0;
    for (const double p : probability) sum -= p > 0 ? p * std::log(p) : 0;
    return sum;
  }
};
ChoiceRow choice_row(DiscreteSacPolicy& policy, ChoiceValues& critics, const at::Tensor& observation,
                     const at::Tensor& mask, std::int64_t row) {
  const Observation one{observation.narrow(0, row, 1)};
  const at::Tensor logits = policy.actor().forward(one), values = critics.forward(one);
  ChoiceRow its{};
  double sum = 0;
  for (std::int64_t a = 0; a < kFourChoices; ++a) {
    const bool is_allowed = !mask.defined() || mask[row][a].item<int>() != 0;
    its.probability[a] = is_allowed ? std::exp(logits[0][a].item<double>()) : 0;
    sum += its.probability[a];
    its.least[a] = std::min(values[0][0][a].item<double>(), values[1][0][a].item<double>());
  }
  for (double& p : its.probability) p /= sum;
  return its;
}

TEST(DiscreteSacLossTest, TheCriticsLossIsTheWeightedSquaredErrorOfBoth) {
  for (const bool has_mask : {false, true}) {
    Choosing it(has_mask);
    double wanted = 0;
    std::vector<double> errors;
    for (std::int64_t row = 0; row < kChosenRows; ++row) {
      const ChoiceRow next =
          choice_row(it.policy, it.targets, it.rows.next_observation[0], it.rows.next_action_mask, row);
      const double target =
          it.rows.reward[row].item<double>() + it.rows.discount[row].item<double>() * next.expected(0.3);
      const at::Tensor q = it.policy.critics().forward({it.rows.observation[0].narrow(0, row, 1)});
      double error = 0;
      for (const int critic : {0, 1}) {
        const double its = q[critic][0][it.rows.action[row].item<std::int64_t>()].item<double>() - target;
        wanted += 0.5 * it.rows.weight[row].item<double>() * its * its / kChosenRows;
        error += std::abs(its) / 2;
      }
      errors.push_back(error);
    }
    OffPolicySums sums;
    std::vector<float> told;
    const learner::ShardLoss loss = sac_critic_loss(it.policy, it.targets, it.rows, {}, sums, &told);
    EXPECT_NEAR(loss.loss.item<double>(), wanted, 1e-10);
    ASSERT_EQ(told.size(), errors.size());
    for (std::size_t i = 0; i < errors.size(); ++i) EXPECT_NEAR(told[i], errors[i], 1e-5);
  }
}

TEST(DiscreteSacLossTest, TheActorsLossIsTheSoftValueAndTheTemperaturesTheSurplusOfEntropy) {
  for (const bool has_mask : {false, true}) {
    Choosing it(has_mask);
    double policy_loss = 0, entropy = 0;
    for (std::int64_t row = 0; row < kChosenRows; ++row) {
      const ChoiceRow now =
          choice_row(it.policy, it.policy.critics(), it.rows.observation[0], it.rows.action_mask, row);
      policy_loss -= now.expected(0.3) / kChosenRows;
      entropy += now.entropy() / kChosenRows;
    }
    const double surplus = entropy - 0.89 * std::log(has_mask ? kFourChoices - 1 : kFourChoices);
    OffPolicySums sums;
    const learner::ShardLoss loss = sac_policy_loss(it.policy, it.rows, {}, sums);
    EXPECT_NEAR(sums.policy_loss / kChosenRows, policy_loss, 1e-10);
    EXPECT_NEAR(sums.entropy / kChosenRows, entropy, 1e-10);
    EXPECT_NEAR(loss.loss.item<double>(), policy_loss + std::log(0.3) * surplus, 1e-10);
    loss.loss.backward();
    EXPECT_NEAR(it.policy.log_temperature().grad().item<double>(), surplus, 1e-10);
    for (const auto& item : it.policy.actor().named_parameters())
      EXPECT_TRUE(at::isfinite(item.value().grad()).all().item<bool>()) << item.key();

    SacOptions fixed;
    fixed.fixed_temperature = 0.3;
    OffPolicySums its;
    EXPECT_NEAR(sac_policy_loss(it.policy, it.rows, fixed, its).loss.item<double>(), policy_loss, 1e-10);
  }
}

// The gradient of the actor, which the sum over choices gives in closed form: pi(a) (f(a) - sum_b pi(b) f(b)) with
// f = alpha log pi - least, by logit.
TEST(DiscreteSacLossTest, TheActorsGradientIsThatOfTheSum) {
  Choosing it(true);
  OffPolicySums sums;
  sac_policy_loss(it.policy, it.rows, {}, sums).loss.backward();
  std::vector<double> wanted(kFourChoices);
  for (std::int64_t row = 0; row < kChosenRows; ++row) {
    const ChoiceRow now = choice_row(it.policy, it.policy.critics(), it.rows.observation[0], it.rows.action_mask, row);
    for (std::size_t a = 0; a < kFourChoices; ++a) {
      const double p = now.probability[a];
      if (p > 0) wanted[a] += p * (0.3 * std::log(p) - now.least[a] + now.expected(0.3)) / kChosenRows;
    }
  }
  // The last bias has the gradient of the logit itself.
  const at::Tensor grad = it.policy.actor().net().layers().back()->bias.grad();
  for (std::int64_t a = 0; a < kFourChoices; ++a)
    EXPECT_NEAR(grad[a].item<double>(), wanted[static_cast<std::size_t>(a)], 1e-10);
}

TEST(DiscreteSacLossTest, TheActorsStepTouchesNoCriticAndTheCriticsStepNoActor) {
  Choosing it(false);
  OffPolicySums sums;
  const auto touched = [&](const std::string& begin) { return rl::testing::has_gradients(it.policy, begin); };
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
