#include "tandem/rl/algo/impala/vtrace.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/philox.h"

namespace tandem::rl {
namespace {

constexpr double kGamma = 0.97;

VtraceInput random_steps(std::int64_t steps, std::int64_t rows, double share_of_ends) {
  torch::manual_seed(11);
  const auto doubles = torch::TensorOptions().dtype(torch::kDouble);
  const at::Tensor goes_on = torch::rand({steps, rows}, doubles) >= share_of_ends;
  return {.log_ratio = 0.7 * torch::randn({steps, rows}, doubles),
          .reward = torch::randn({steps, rows}, doubles),
          .discount = kGamma * goes_on.to(torch::kDouble),
          .value = torch::randn({steps + 1, rows}, doubles)};
}

// One row, whose numbers are read one by one.
struct Row {
  const VtraceInput& in;
  std::int64_t row;
  double reward(std::int64_t t) const { return in.reward[t][row].item<double>(); }
  double discount(std::int64_t t) const { return in.discount[t][row].item<double>(); }
  double value(std::int64_t t) const { return in.value[t][row].item<double>(); }
  double clipped(std::int64_t t, double clip) const {
    return std::min(clip, std::exp(in.log_ratio[t][row].item<double>()));
  }
};

// The paper's sum of products for v_s, not the recursion.
double target_by_definition(const Row& at, std::int64_t s, const VtraceOptions& options) {
  const std::int64_t steps = at.in.reward.size(0);
  double sum = 0;
  for (std::int64_t t = s; t < steps; ++t) {
    double product = 1;
    for (std::int64_t i = s; i < t; ++i) product *= at.discount(i) * at.clipped(i, options.c_clip);
    sum += product * at.clipped(t, options.rho_clip) * (at.reward(t) + at.discount(t) * at.value(t + 1) - at.value(t));
  }
  return at.value(s) + sum;
}

double advantage_by_definition(const Row& at, std::int64_t s, const VtraceOptions& options) {
  return at.clipped(s, options.policy_rho_clip) *
         (at.reward(s) + at.discount(s) * target_by_definition(at, s + 1, options) - at.value(s));
}

TEST(VtraceTest, EqualsThePapersSumsOfProducts) {
  const VtraceInput input = random_steps(9, 6, 0.15);
  for (const VtraceOptions& options : {VtraceOptions{}, VtraceOptions{1.3, 0.8, 2.0}, VtraceOptions{9, 9, 0.5}}) {
    const VtraceTargets targets = vtrace(input, options), operations = vtrace_by_operations(input, options);
    for (std::int64_t row = 0; row < 6; ++row) {
      for (std::int64_t s = 0; s < 9; ++s) {
        const Row at{input, row};
        EXPECT_NEAR(targets.value_target[s][row].item<double>(), target_by_definition(at, s, options), 1e-12);
        EXPECT_NEAR(targets.advantage[s][row].item<double>(), advantage_by_definition(at, s, options), 1e-12);
        EXPECT_NEAR(operations.value_target[s][row].item<double>(), target_by_definition(at, s, options), 1e-12);
        EXPECT_NEAR(operations.advantage[s][row].item<double>(), advantage_by_definition(at, s, options), 1e-12);
      }
    }
  }
}

TEST(VtraceTest, OnPolicyTheTargetIsTheReturnUpToTheFragmentsEnd) {
  VtraceInput input = random_steps(7, 4, 0.2);
  input.log_ratio.zero_();
  const VtraceTargets targets = vtrace(input, {});
  at::Tensor expected = input.value[7];
  for (std::int64_t t = 6; t >= 0; --t) {
    expected = input.reward[t] + input.discount[t] * expected;
    EXPECT_TRUE(torch::allclose(targets.value_target[t], expected, 1e-12, 1e-12)) << t;
    EXPECT_TRUE(torch::allclose(targets.advantage[t], expected - input.value[t], 1e-12, 1e-12)) << t;
  }
}

TEST(VtraceTest, NothingBehindATerminationCounts) {
  VtraceInput input = random_steps(6, 2, 0);
  input.discount[3].zero_();
  const VtraceTargets before = vtrace(input, {});
  input.value.slice(0, 4).add_(100);
  input.reward.slice(0, 4).add_(-50);
  input.log_ratio.slice(0, 4).add_(1);
  const VtraceTargets after = vtrace(input, {});
  EXPECT_TRUE(torch::equal(before.value_target.slice(0, 0, 4), after.value_target.slice(0, 0, 4)));
  EXPECT_TRUE(torch::equal(before.advantage.slice(0, 0, 4), after.advantage.slice(0, 0, 4)));
}

// A rollout worker writes an episode that its time limit ended as an end whose reward includes gamma * V(last).
TEST(VtraceTest, ATruncatedEpisodeIsWorthAsMuchAsAFragmentThatEndsThere) {
  const VtraceInput whole = random_steps(5, 3, 0);
  const at::Tensor last_value = whole.value[3].clone();  // of the last observation, before the environment's reset
  VtraceInput cut{.log_ratio = whole.log_ratio,
                  .reward = whole.reward.clone(),
                  .discount = whole.discount.clone(),
                  .value = whole.value.clone()};
  cut.reward[2] += kGamma * last_value;
  cut.discount[2].zero_();
  cut.value[3].fill_(77);  // of the next episode's first observation
  const VtraceInput shorter{.log_ratio = whole.log_ratio.slice(0, 0, 3),
                            .reward = whole.reward.slice(0, 0, 3),
                            .discount = whole.discount.slice(0, 0, 3),
                            .value = whole.value.slice(0, 0, 4)};
  const VtraceTargets of_cut = vtrace(cut, {}), of_shorter = vtrace(shorter, {});
  EXPECT_TRUE(torch::allclose(of_cut.value_target.slice(0, 0, 3), of_shorter.value_target, 1e-12, 1e-12));
  EXPECT_TRUE(torch::allclose(of_cut.advantage.slice(0, 0, 3), of_shorter.advantage, 1e-12, 1e-12));
}

TEST(VtraceTest, TargetsCarryNoGradient) {
  VtraceInput input = random_steps(3, 2, 0);
  input.value.requires_grad_();
  input.log_ratio.requires_grad_();
  const VtraceTargets targets = vtrace(input, {});
  EXPECT_FALSE(targets.value_target.requires_grad() || targets.advantage.requires_grad());
}

// The steps of all rows, in an order that keeps each row's own, as decisions that are told what follows them.
struct AsDecisions {
  VtraceInput input;
  std::vector<std::int64_t> row_of, step_of;  // by decision
};
AsDecisions as_decisions(const VtraceInput& steps) {
  const std::int64_t count = steps.reward.size(0), rows = steps.reward.size(1);
  std::vector<std::int64_t> made(static_cast<std::size_t>(rows), 0), row_of, step_of, next;
  std::vector<std::int64_t> last(static_cast<std::size_t>(rows), -1);
  Philox random(5, 0);
  while (std::ssize(row_of) < count * rows) {  // agents act when it is their turn
    const auto row = static_cast<std::size_t>(random.below(static_cast<std::uint64_t>(rows)));
    if (made[row] == count) continue;
    const std::int64_t at = std::ssize(row_of);
    if (last[row] >= 0) next[static_cast<std::size_t>(last[row])] = at;
    const bool ends = steps.discount[made[row]][static_cast<std::int64_t>(row)].item<double>() == 0;
    last[row] = ends ? -1 : at;
    row_of.push_back(static_cast<std::int64_t>(row));
    step_of.push_back(made[row]++);
    next.push_back(-1);
  }
  std::vector<std::int64_t> value_rows = row_of, value_steps = step_of;
  for (std::size_t row = 0; row < last.size(); ++row) {
    if (last[row] < 0) continue;
    next[static_cast<std::size_t>(last[row])] = std::ssize(value_rows);
    value_rows.push_back(static_cast<std::int64_t>(row));
    value_steps.push_back(count);
  }
  const auto chosen = [](const at::Tensor& from, const std::vector<std::int64_t>& of_step,
                         const std::vector<std::int64_t>& of_row) {
    return from.index({torch::tensor(of_step), torch::tensor(of_row)});
  };
  return {.input = {.log_ratio = chosen(steps.log_ratio, step_of, row_of),
                    .reward = chosen(steps.reward, step_of, row_of),
                    .discount = chosen(steps.discount, step_of, row_of),
                    .value = chosen(steps.value, value_steps, value_rows),
                    .next = torch::tensor(next)},
          .row_of = row_of,
          .step_of = step_of};
}

TEST(VtraceTest, DecisionsWithWhatFollowsThemHaveTheTargetsOfTheirAgents) {
  const VtraceInput steps = random_steps(9, 6, 0.15);
  steps.discount[8][2].zero_();
  const AsDecisions decisions = as_decisions(steps);
  EXPECT_EQ(decisions.input.value.size(0), 9 * 6 + 5) << "one ends with its last step";
  const VtraceOptions options{1.3, 0.8, 2.0};
  const VtraceTargets targets = vtrace(decisions.input, options);
  for (std::size_t i = 0; i < decisions.row_of.size(); ++i) {
    const Row at{steps, decisions.row_of[i]};
    const auto n = static_cast<std::int64_t>(i);
    EXPECT_NEAR(targets.value_target[n].item<double>(), target_by_definition(at, decisions.step_of[i], options), 1e-12);
    EXPECT_NEAR(targets.advantage[n].item<double>(), advantage_by_definition(at, decisions.step_of[i], options), 1e-12);
  }
}

TEST(VtraceTest, RefusesDecisionsOfAnotherShape) {
  VtraceInput input = as_decisions(random_steps(3, 2, 0)).input;
  input.next = input.next.slice(0, 1);
  EXPECT_THROW((void)vtrace(input, {}), InvariantError);
}

TEST(VtraceTest, RefusesValuesWithoutTheBootstrap) {
  VtraceInput input = random_steps(3, 2, 0);
  input.value = input.value.slice(0, 0, 3);
  EXPECT_THROW((void)vtrace(input, {}), InvariantError);
}

}  // namespace
}  // namespace tandem::rl
