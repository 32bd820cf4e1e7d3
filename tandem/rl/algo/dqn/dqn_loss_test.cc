// The projection of distributions and the loss of quantiles against loops over their formulas, in float64.
#include "tandem/rl/algo/dqn/dqn_loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tandem/base/text.h"
#include "tandem/rl/algo/testing/loop_perceptron.h"

namespace tandem::rl {
namespace {

using rl::testing::Numbers;
using rl::testing::perceptron;
using rl::testing::row_of;

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

Spec masked_choice_spec() {
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
  DqnPolicy policy(masked_choice_spec(), networks, options, generator);
  ReturnNetwork target(masked_choice_spec(), networks, options, generator);
  TransitionRows rows = make_transitions(masked_choice_spec(), 6, 0);
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

constexpr std::int64_t kLossRows = 30, kLossActions = 3, kLossAtoms = 5;

// Networks and rows in float64, but for observations, which are float32 as ever.
struct DqnCase {
  explicit DqnCase(DqnOptions with)
      : options(with), policy(spec(), networks, options, generator), target(spec(), networks, options, generator) {
    const at::NoGradGuard no_grad;
    at::manual_seed(6);
    for (torch::nn::Module* module : std::initializer_list<torch::nn::Module*>{&policy, &target}) {
      module->to(at::kDouble);
      for (at::Tensor& parameter : module->parameters()) parameter.mul_(3);
    }
    rows = make_transitions(spec(), kLossRows, 0);
    rows.observation[0].normal_();
    rows.next_observation[0].normal_();
    rows.action.random_(0, kLossActions);
    rows.reward = at::randn({kLossRows}, at::kDouble);
    rows.discount = at::rand({kLossRows}, at::kDouble);
    rows.weight = at::rand({kLossRows}, at::kDouble);
  }
  static Spec spec() {
    Spec spec = masked_choice_spec();
    spec.has_action_mask = false;
    return spec;
  }
  DqnOptions options;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(2);
  NetworkOptions networks{.hidden = {8, 6}};
  DqnPolicy policy;
  ReturnNetwork target;
  TransitionRows rows;
};

// What a network tells of each action of a row.
std::vector<Numbers> returns_of_row(const ReturnNetwork& network, const at::Tensor& observation, std::int64_t row,
                                    std::size_t numbers) {
  const Numbers first = perceptron(network.net(), row_of(observation, row));
  const Numbers advantage =
      network.advantage() == nullptr ? first : perceptron(*network.advantage(), row_of(observation, row));
  std::vector<Numbers> all(kLossActions, Numbers(numbers));
  for (std::size_t n = 0; n < numbers; ++n) {
    double mean = 0;
    for (std::size_t a = 0; a < kLossActions; ++a) mean += advantage[a * numbers + n] / kLossActions;
    for (std::size_t a = 0; a < kLossActions; ++a)
      all[a][n] = advantage[a * numbers + n] + (network.advantage() == nullptr ? 0 : first[n] - mean);
  }
  return all;
}

Numbers softmax_of(const Numbers& logits) {
  double sum = 0;
  for (const double each : logits) sum += std::exp(each);
  Numbers all;
  for (const double each : logits) all.push_back(std::exp(each) / sum);
  return all;
}

// The fixed values are -2, -0.75, 0.5, 1.75 and 3, which float32 has exactly.
double atom(std::size_t j) { return -2 + 1.25 * static_cast<double>(j); }

double mean_of(const Numbers& numbers, DqnReturn returns) {
  const Numbers share = softmax_of(numbers);
  double mean = 0;
  for (std::size_t j = 0; j < numbers.size(); ++j) {
    mean += returns == DqnReturn::kCategorical ? share[j] * atom(j) : numbers[j] / static_cast<double>(numbers.size());
  }
  return mean;
}

double huber_of(double error) { return std::abs(error) <= 1 ? error * error / 2 : std::abs(error) - 0.5; }

double loss_of_row(const Numbers& mine, const Numbers& next, double reward, double discount, DqnReturn returns) {
  if (returns == DqnReturn::kMean) return huber_of(mine[0] - (reward + discount * next[0]));
  double loss = 0;
  if (returns == DqnReturn::kQuantiles) {
    for (std::size_t i = 0; i < kLossAtoms; ++i) {
      for (std::size_t j = 0; j < kLossAtoms; ++j) {
        const double error = reward + discount * next[j] - mine[i];
        const double middle = (static_cast<double>(i) + 0.5) / kLossAtoms;
        loss += std::abs(middle - (error < 0 ? 1 : 0)) * huber_of(error) / kLossAtoms;
      }
    }
    return loss;
  }
  const Numbers share = softmax_of(next), said = softmax_of(mine);
  for (std::size_t j = 0; j < kLossAtoms; ++j) {
    const double place = (std::clamp(reward + discount * atom(j), atom(0), atom(kLossAtoms - 1)) - atom(0)) / 1.25;
    // Each fixed value has the part of the moved one by which it is nearer than one step.
    for (std::size_t k = 0; k < kLossAtoms; ++k) {
      const double near = std::max(0.0, 1 - std::abs(place - static_cast<double>(k)));
      loss -= share[j] * near * std::log(said[k]);
    }
  }
  return loss;
}

void expect_loss_of_loops(DqnOptions options) {
  SCOPED_TRACE(concat("returns ", static_cast<int>(options.returns), ", streams ", static_cast<int>(options.streams),
                      ", target ", static_cast<int>(options.target)));
  DqnCase it(options);
  const auto numbers = static_cast<std::size_t>(options.numbers());
  double wanted = 0, value = 0;
  for (std::int64_t row = 0; row < kLossRows; ++row) {
    const auto next = returns_of_row(it.target, it.rows.next_observation[0], row, numbers);
    const auto judged = options.target == DqnTarget::kMax
                            ? next
                            : returns_of_row(it.policy.network(), it.rows.next_observation[0], row, numbers);
    std::size_t best = 0;
    for (std::size_t a = 1; a < kLossActions; ++a) {
      if (mean_of(judged[a], options.returns) > mean_of(judged[best], options.returns)) best = a;
    }
    const auto action = static_cast<std::size_t>(it.rows.action[row].item<std::int64_t>());
    const Numbers mine = returns_of_row(it.policy.network(), it.rows.observation[0], row, numbers)[action];
    value += mean_of(mine, options.returns);
    wanted += it.rows.weight[row].item<double>() / kLossRows *
              loss_of_row(mine, next[best], it.rows.reward[row].item<double>(), it.rows.discount[row].item<double>(),
                          options.returns);
  }
  OffPolicySums sums;
  const learner::ShardLoss loss = dqn_loss(it.policy, it.target, it.rows, options, sums, nullptr);
  EXPECT_NEAR(loss.loss.item<double>(), wanted, 1e-10 * std::max(1.0, wanted));
  EXPECT_NEAR(sums.value, value, 1e-10 * kLossRows);
}

TEST(DqnLossTest, EveryFormOfTheLossIsThatOfItsFormula) {
  DqnOptions options;
  options.atoms = kLossAtoms;
  options.least_return = -2;
  options.most_return = 3;
  for (const DqnReturn returns : {DqnReturn::kMean, DqnReturn::kCategorical, DqnReturn::kQuantiles}) {
    for (const DqnStreams streams : {DqnStreams::kOne, DqnStreams::kDueling}) {
      for (const DqnTarget target : {DqnTarget::kMax, DqnTarget::kDouble}) {
        options.returns = returns;
        options.streams = streams;
        options.target = target;
        expect_loss_of_loops(options);
      }
    }
  }
}

}  // namespace
}  // namespace tandem::rl
