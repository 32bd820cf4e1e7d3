#include "tandem/rl/algo/impala/impala_loss.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "tandem/rl/algo/impala/trajectory.h"
#include "tandem/rl/algo/impala/vtrace.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {
namespace {

constexpr int kTimes = 5, kEnvs = 3;

Fragment random_trajectory(const Spec& spec) {
  torch::manual_seed(5);
  Fragment trajectory(spec, kTimes, kEnvs);
  trajectory.observation[0].copy_(torch::randn_like(trajectory.observation[0]));
  if (trajectory.action.is_floating_point()) {
    trajectory.action.copy_(torch::randn_like(trajectory.action));
  } else {
    trajectory.action.copy_(torch::randint(0, 2, trajectory.action.sizes()));
  }
  trajectory.log_prob.copy_(-torch::rand({kTimes, kEnvs}));
  trajectory.reward.copy_(torch::randn({kTimes, kEnvs}));
  trajectory.done[2][1].fill_(1);
  return trajectory;
}

learner::ShardBatch as_shard(const Fragment& fragment) {
  Trajectory trajectory(fragment, 1, c10::kCPU);
  trajectory.copy_from({&fragment, 1});
  const learner::Batch& batch = trajectory.batch();
  return {.rows = kTimes * kEnvs,
          .valid_rows = kTimes * kEnvs,
          .columns = batch.columns,
          .states = batch.states,
          .valid = {}};
}

class ImpalaLossTest : public ::testing::TestWithParam<const char*> {
 protected:
  Spec spec = EnvRegistry::native().make(GetParam(), 1)->spec();
  MlpPolicy policy{spec, MlpPolicyOptions{}, at::detail::createCPUGenerator(3)};
  ImpalaOptions options{.gamma = 0.9, .entropy_coef = 0.02, .value_coef = 0.7};
};

// A step at a time, as the paper writes it.
TEST_P(ImpalaLossTest, EqualsTheLossWrittenOutStepByStep) {
  const Fragment trajectory = random_trajectory(spec);
  ImpalaNumbers numbers;
  const learner::ShardLoss loss = impala_loss(policy, {}, as_shard(trajectory), options, numbers);

  std::vector<at::Tensor> value, log_prob, entropy;
  for (int t = 0; t <= kTimes; ++t) {
    const PolicyOutput output = policy.forward({trajectory.observation[0][t]});
    value.push_back(output.value);
    if (t == kTimes) break;
    const auto distribution = policy.distribution(output);
    log_prob.push_back(distribution->log_prob(trajectory.action[t]));
    entropy.push_back(distribution->entropy());
  }
  const at::Tensor values = torch::stack(value), log_probs = torch::stack(log_prob);
  const VtraceTargets targets = vtrace({.log_ratio = (log_probs - trajectory.log_prob).detach(),
                                        .reward = trajectory.reward,
                                        .discount = 0.9 * (1 - trajectory.done.to(torch::kFloat)),
                                        .value = values.detach()},
                                       {});
  const at::Tensor expected = -(targets.advantage * log_probs).mean() +
                              0.7 * (targets.value_target - values.slice(0, 0, kTimes)).square().mean() -
                              0.02 * torch::stack(entropy).mean();
  EXPECT_NEAR(loss.loss.item<double>(), expected.item<double>(), 1e-5);
  EXPECT_EQ(loss.weight, kTimes * kEnvs);

  loss.loss.backward();
  const at::Tensor gradient = policy.parameters().front().grad().clone();
  policy.zero_grad();
  expected.backward();
  EXPECT_TRUE(torch::allclose(gradient, policy.parameters().front().grad(), 1e-4, 1e-6));
}

TEST_P(ImpalaLossTest, OnPolicyNothingIsCutAndNoDistributionIsLeft) {
  Fragment trajectory = random_trajectory(spec);
  const PolicyOutput output = policy.forward({trajectory.observation[0].slice(0, 0, kTimes).flatten(0, 1)});
  trajectory.log_prob.copy_(
      policy.distribution(output)->log_prob(trajectory.action.flatten(0, 1)).view({kTimes, kEnvs}).detach());
  ImpalaNumbers numbers;
  options.rho_clip = 1.001;  // rounding aside
  (void)impala_loss(policy, {}, as_shard(trajectory), options, numbers);
  EXPECT_NEAR(numbers.approx_kl, 0, 1e-6);
  EXPECT_EQ(numbers.clip_fraction, 0);
  trajectory.log_prob -= 1;
  (void)impala_loss(policy, {}, as_shard(trajectory), options, numbers);
  EXPECT_EQ(numbers.clip_fraction, 1);
}

INSTANTIATE_TEST_SUITE_P(Actions, ImpalaLossTest, ::testing::Values("CartPole-v1", "Pendulum-v1"),
                         [](const auto& test) { return std::string(test.param).substr(0, 4); });

}  // namespace
}  // namespace tandem::rl
