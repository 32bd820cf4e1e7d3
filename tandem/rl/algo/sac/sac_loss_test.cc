// SAC's objectives against loops in float64 over their formulas.
#include "tandem/rl/algo/sac/sac_loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numbers>
#include <vector>

#include "tandem/rl/algo/off_policy/critic_choice.h"
#include "tandem/rl/algo/testing/has_gradients.h"

namespace tandem::rl {
namespace {

constexpr std::int64_t kRows = 12;
const std::vector<std::size_t> kBothCritics{0, 1};

Spec box_spec() {
  Spec spec;
  spec.id = "Test-v0";
  spec.observation = {{.name = "obs", .type = ElementType::kFloat32, .shape = {3}, .low = {}, .high = {}}};
  spec.action = Box{{-1, -1}, {1, 1}};
  return spec;
}

// Networks and rows in float64, but for observations, which are float32 as ever.
struct Case {
  explicit Case(int count = 2, CriticNorm with = CriticNorm::kNone, double left_out = 0)
      : critics(count), norm(with), dropout(left_out) {
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
  int critics = 2;
  CriticNorm norm = CriticNorm::kNone;
  double dropout = 0;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(1);
  NetworkOptions networks{.hidden = {8}, .critic_norm = norm, .critic_dropout = dropout};
  SacPolicy policy{box_spec(), networks, critics, 0.3, generator};
  ActionValues targets{box_spec(), networks, critics, generator};
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
  const learner::ShardLoss loss = sac_critic_loss(it.policy, it.targets, kBothCritics, it.rows, {}, sums, &told);
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

// REDQ: the target is the least of the drawn critics, and the actor has the mean of all. With norms in them, as DroQ
// has.
TEST(SacLossTest, OfManyCriticsTheDrawnOnesMakeTheTargetAndTheirMeanTeachesTheActor) {
  Case it(4, CriticNorm::kLayer);
  SacOptions options;
  options.critics = 4;
  options.actor_value = ActorValue::kMean;
  options.fixed_temperature = 0.3;
  const std::vector<std::size_t> chosen{1, 3};
  double wanted = 0, policy_loss = 0;
  for (std::int64_t row = 0; row < kRows; ++row) {
    const Drawn next = drawn(it.policy, it.rows.next_observation[0], it.rows.noise[0], row);
    const double least = std::min(value(it.targets, 1, it.rows.next_observation[0], next.action, row),
                                  value(it.targets, 3, it.rows.next_observation[0], next.action, row));
    const double target =
        it.rows.reward[row].item<double>() + it.rows.discount[row].item<double>() * (least - 0.3 * next.log_prob);
    const double action[2] = {it.rows.action[row][0].item<double>(), it.rows.action[row][1].item<double>()};
    const Drawn now = drawn(it.policy, it.rows.observation[0], it.rows.noise[1], row);
    policy_loss += 0.3 * now.log_prob / kRows;
    for (int critic = 0; critic < 4; ++critic) {
      const double q = value(it.policy.critics(), critic, it.rows.observation[0], action, row);
      wanted += 0.5 * it.rows.weight[row].item<double>() * (q - target) * (q - target) / kRows;
      policy_loss -= value(it.policy.critics(), critic, it.rows.observation[0], now.action, row) / 4 / kRows;
    }
  }
  OffPolicySums sums;
  EXPECT_NEAR(sac_critic_loss(it.policy, it.targets, chosen, it.rows, options, sums, nullptr).loss.item<double>(),
              wanted, 1e-10);
  EXPECT_NEAR(sac_policy_loss(it.policy, it.rows, options, sums).loss.item<double>(), policy_loss, 1e-10);
}

// DroQ: units are left out of each critic by masks of its own, in the target, in the critics' loss and in the actor's.
// The masks are drawn here as the loss draws them, network by network and layer by layer.
TEST(SacLossTest, UnitsAreLeftOutOfEachCriticByMasksOfItsOwn) {
  Case it(2, CriticNorm::kLayer, 0.25);
  SacOptions options;
  options.fixed_temperature = 0.3;
  const auto by_masks = [](const ActionValues& critics, const at::Tensor& observation, const at::Tensor& action) {
    std::vector<at::Tensor> values;
    for (const auto& net : critics.networks()) {
      const at::Tensor kept = at::empty({kRows, 8}, at::kDouble).bernoulli_(0.75) / 0.75;
      const at::Tensor x = at::cat({observation.to(at::kDouble), action}, 1);
      const at::Tensor y = at::linear(x, net->layers()[0]->weight, net->layers()[0]->bias) * kept;
      const at::Tensor mean = y.mean(1, true), spread = (y - mean).square().mean(1, true);
      const at::Tensor normal = (y - mean) / (spread + 1e-5).sqrt() * net->norms()[0]->weight + net->norms()[0]->bias;
      values.push_back(at::linear(at::relu(normal), net->layers()[1]->weight, net->layers()[1]->bias).squeeze(1));
    }
    return at::stack(values);
  };
  const model::Draw next = it.policy.actions(it.rows.next_observation).draw_of(it.rows.noise[0]);
  const model::Draw now = it.policy.actions(it.rows.observation).draw_of(it.rows.noise[1]);
  at::manual_seed(21);
  const at::Tensor least = by_masks(it.targets, it.rows.next_observation[0], next.actions).amin(0);
  const at::Tensor target = it.rows.reward + it.rows.discount * (least - 0.3 * next.log_prob);
  const at::Tensor q = by_masks(it.policy.critics(), it.rows.observation[0], it.rows.action);
  const double wanted = (0.5 * it.rows.weight * (q - target).square()).mean(1).sum().item<double>();
  const at::Tensor of_actor = by_masks(it.policy.critics(), it.rows.observation[0], now.actions).amin(0);
  OffPolicySums sums;
  at::manual_seed(21);
  EXPECT_NEAR(sac_critic_loss(it.policy, it.targets, kBothCritics, it.rows, options, sums, nullptr).loss.item<double>(),
              wanted, 1e-10);
  EXPECT_NEAR(sac_policy_loss(it.policy, it.rows, options, sums).loss.item<double>(),
              (0.3 * now.log_prob - of_actor).mean().item<double>(), 1e-10);
  // What values a state is whole.
  EXPECT_TRUE(it.policy.forward(it.rows.observation).value.equal(it.policy.forward(it.rows.observation).value));
}

// Every pair comes up as often as the others, and a seed has one choice for ever.
TEST(SacLossTest, CriticsOfATargetAreDrawnEvenly) {
  SacOptions options;
  options.critics = 4;
  EXPECT_EQ(chosen_critics(options, 5), (std::vector<std::size_t>{0, 1, 2, 3}));
  options.target_critics = 2;
  std::map<std::vector<std::size_t>, int> counts;
  for (std::uint64_t seed = 0; seed < 6000; ++seed) ++counts[chosen_critics(options, seed)];
  ASSERT_EQ(counts.size(), 6U);
  for (const auto& [chosen, count] : counts) EXPECT_NEAR(count, 1000, 150) << chosen[0] << chosen[1];
  EXPECT_EQ(chosen_critics(options, 77), chosen_critics(options, 77));
}

// The actor learns from the critics, and they are not to learn what it would like to hear.
TEST(SacLossTest, TheActorsStepTouchesNoCriticAndTheCriticsStepNoActor) {
  Case it;
  OffPolicySums sums;
  const auto touched = [&](const std::string& begin) { return rl::testing::has_gradients(it.policy, begin); };
  sac_policy_loss(it.policy, it.rows, {}, sums).loss.backward();
  EXPECT_TRUE(touched("actor"));
  EXPECT_TRUE(touched("log_temperature"));
  EXPECT_FALSE(touched("critics"));
  it.policy.zero_grad();
  sac_critic_loss(it.policy, it.targets, kBothCritics, it.rows, {}, sums, nullptr).loss.backward();
  EXPECT_TRUE(touched("critics"));
  EXPECT_FALSE(touched("actor"));
  EXPECT_FALSE(touched("log_temperature"));
}

}  // namespace
}  // namespace tandem::rl
