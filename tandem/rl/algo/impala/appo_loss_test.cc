#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "tandem/rl/algo/impala/impala_loss.h"
#include "tandem/rl/algo/impala/impala_run.h"
#include "tandem/rl/algo/impala/trajectory.h"
#include "tandem/rl/algo/impala/vtrace.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/policy/mlp_policy.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::rl {
namespace {

constexpr int kAppoSteps = 6, kAppoEnvs = 3;

class AppoLossTest : public ::testing::TestWithParam<const char*> {
 protected:
  AppoLossTest() : trajectory(spec, kAppoSteps, kAppoEnvs) {
    torch::manual_seed(5);
    trajectory.observation[0].copy_(torch::randn_like(trajectory.observation[0]));
    if (trajectory.action.is_floating_point()) {
      trajectory.action.copy_(torch::randn_like(trajectory.action));
    } else {
      trajectory.action.copy_(torch::randint(0, 2, trajectory.action.sizes()));
    }
    trajectory.log_prob.copy_(-2 * torch::rand({kAppoSteps, kAppoEnvs}));
    trajectory.log_prob.narrow(0, 0, 3).zero_();  // what pi_T would do more seldom: the correction is cut
    trajectory.reward.copy_(torch::randn({kAppoSteps, kAppoEnvs}));
    trajectory.done[2][1].fill_(1);
  }

  learner::ShardBatch shard() const {
    Trajectory copy(trajectory, 1, c10::kCPU);
    copy.copy_from({&trajectory, 1});
    const learner::Batch& batch = copy.batch();
    return {.rows = kAppoSteps * kAppoEnvs,
            .valid_rows = kAppoSteps * kAppoEnvs,
            .columns = batch.columns,
            .states = batch.states,
            .valid = {}};
  }
  std::unique_ptr<MlpPolicy> policy_of(std::uint64_t seed) const {
    return std::make_unique<MlpPolicy>(spec, MlpPolicyOptions{.policy_gain = 1}, at::detail::createCPUGenerator(seed));
  }

  Spec spec = EnvRegistry::native().spec(GetParam());
  Fragment trajectory;
  ImpalaOptions options{.gamma = 0.9, .entropy_coef = 0.02, .value_coef = 0.7};
  AppoOptions appo{.clip_range = 0.1, .kl_coef = 0.3};
};

// Row by row in float64, as the header writes it.
TEST_P(AppoLossTest, EqualsTheLossWrittenOutRowByRow) {
  const auto policy = policy_of(1), target = policy_of(2);
  ImpalaNumbers numbers;
  const learner::ShardLoss loss = impala_loss(*policy, AppoTarget{*target, appo}, shard(), options, numbers);

  const at::Tensor rows = trajectory.observation[0].narrow(0, 0, kAppoSteps).flatten(0, 1);
  const at::Tensor action = trajectory.action.flatten(0, 1);
  const auto now = policy->distribution(policy->forward({rows})),
             before = target->distribution(target->forward({rows}));
  const auto of_steps = [](const at::Tensor& of_rows) { return of_rows.detach().view({kAppoSteps, kAppoEnvs}); };
  const at::Tensor log_pi = of_steps(now->log_prob(action)), log_target = of_steps(before->log_prob(action));
  const at::Tensor value = policy->forward({trajectory.observation[0].flatten(0, 1)}).value.detach();
  const VtraceTargets targets = vtrace({.log_ratio = log_target - trajectory.log_prob,
                                        .reward = trajectory.reward,
                                        .discount = 0.9 * (1 - trajectory.done.to(torch::kFloat)),
                                        .value = value.view({kAppoSteps + 1, kAppoEnvs})},
                                       {});
  double policy_sum = 0, value_sum = 0;
  int outside = 0, corrected = 0;
  for (int t = 0; t < kAppoSteps; ++t) {
    for (int n = 0; n < kAppoEnvs; ++n) {
      const auto at = [&](const at::Tensor& of) { return of[t][n].item<double>(); };
      const double correction = std::exp(at(trajectory.log_prob) - at(log_target));
      const double ratio = std::min(2.0, correction) * std::exp(at(log_pi) - at(trajectory.log_prob));
      const double advantage = at(targets.advantage);
      policy_sum -= std::min(ratio * advantage, std::clamp(ratio, 0.9, 1.1) * advantage);
      value_sum += std::pow(at(targets.value_target) - value[t * kAppoEnvs + n].item<double>(), 2);
      outside += std::abs(ratio - 1) > 0.1 ? 1 : 0;
      corrected += correction > 2 ? 1 : 0;
    }
  }
  constexpr double kCount = kAppoSteps * kAppoEnvs;
  EXPECT_GT(outside, 3);
  EXPECT_GT(corrected, 0);
  EXPECT_NEAR(numbers.policy_loss, policy_sum / kCount, 1e-5);
  EXPECT_NEAR(numbers.value_loss, value_sum / kCount, 1e-4);
  EXPECT_NEAR(numbers.clip_fraction, outside / kCount, 1e-6);
  EXPECT_NEAR(loss.loss.item<double>(),
              policy_sum / kCount + 0.7 * value_sum / kCount - 0.02 * now->entropy().mean().item<double>() +
                  0.3 * before->kl(*now).mean().item<double>(),
              1e-4);
  EXPECT_EQ(loss.weight, kCount);
}

// At ratios of 1 the clip does nothing.
TEST_P(AppoLossTest, WithTheTargetsOwnWeightsTheGradientIsThatOfPolicyGradients) {
  const auto policy = policy_of(1), target = policy_of(1);
  options.entropy_coef = options.value_coef = 0;
  ImpalaNumbers numbers, of_impala;
  trajectory.log_prob.copy_(
      policy->distribution(policy->forward({trajectory.observation[0].narrow(0, 0, kAppoSteps).flatten(0, 1)}))
          ->log_prob(trajectory.action.flatten(0, 1))
          .detach()
          .view({kAppoSteps, kAppoEnvs}));
  impala_loss(*policy, AppoTarget{*target, appo}, shard(), options, numbers).loss.backward();
  const at::Tensor gradient = policy->parameters().front().grad().clone();
  policy->zero_grad();
  impala_loss(*policy, {}, shard(), options, of_impala).loss.backward();
  EXPECT_GT(gradient.abs().sum().item<double>(), 0);
  EXPECT_TRUE(torch::allclose(gradient, policy->parameters().front().grad(), 1e-4, 1e-6));
  EXPECT_NEAR(numbers.approx_kl, 0, 1e-7);
}

INSTANTIATE_TEST_SUITE_P(Actions, AppoLossTest, ::testing::Values("CartPole-v1", "Pendulum-v1"),
                         [](const auto& test) { return std::string(test.param).substr(0, 4); });

ImpalaSetup appo_on_cartpole() {
  ImpalaSetup setup;
  setup.seed = 3;
  setup.total_steps = 4096;
  setup.impala.num_envs = 8;
  setup.impala.rollout_steps = 16;
  setup.impala.execution = ImpalaExecution::kInline;
  setup.impala.batches_per_update = 5;
  setup.impala.learning_rate = 1e-2;
  setup.appo = AppoOptions{.target_update_steps = 3};
  setup.make_envs = [](int count) { return EnvRegistry::native().make("CartPole-v1", count); };
  setup.make_policy = mlp_policy_factory({});
  return setup;
}

std::string appo_state_after(ImpalaSetup setup, int updates) {
  ImpalaRun run(std::move(setup));
  for (int i = 0; i < updates; ++i) (void)run.update();
  return run.state_sha256();
}

TEST(AppoRunTest, TheTargetNetworkIsRenewedAsOftenAsTheOptionsSay) {
  ImpalaSetup every_step = appo_on_cartpole();
  every_step.impala.num_envs = 4;
  every_step.impala.workers = 1;  // the weights that acted are the learner's
  every_step.appo->target_update_steps = 1;
  ImpalaSetup seldom = every_step;
  seldom.appo->target_update_steps = 1000;
  ImpalaRun near(std::move(every_step)), far(std::move(seldom));
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(near.update().learning.approx_kl, 0, 1e-7);
    EXPECT_GT(far.update().learning.approx_kl, 1e-6);
  }
}

TEST(AppoRunTest, ARunThatWasSavedAndLoadedGoesOnWithItsTargetNetwork) {
  ImpalaRun first(appo_on_cartpole());
  for (int i = 0; i < 3; ++i) (void)first.update();
  const learner::StateParts parts = first.save();
  ImpalaRun second(appo_on_cartpole());
  (void)second.load([&](const std::string& name) { return learner::part_of(parts, name); });
  for (int i = 0; i < 2; ++i) {
    (void)first.update();
    (void)second.update();
  }
  EXPECT_EQ(second.state_sha256(), first.state_sha256());
}

TEST(AppoRunTest, ItIsNotImpala) {
  ImpalaSetup impala = appo_on_cartpole();
  impala.appo.reset();
  EXPECT_NE(appo_state_after(appo_on_cartpole(), 3), appo_state_after(std::move(impala), 3));
}

TEST(AppoRunTest, PoliciesThatRememberToo) {
  ImpalaSetup setup = appo_on_cartpole();
  setup.impala.workers = 1;
  setup.impala.num_envs = 4;
  setup.impala.sequence_length = 5;
  setup.appo->target_update_steps = 1;
  setup.make_policy = recurrent_policy_factory({.mlp = {.hidden = {16}}, .size = 8});
  ImpalaRun run(std::move(setup));
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(run.update().learning.approx_kl, 0, 1e-7);
}

}  // namespace
}  // namespace tandem::rl
