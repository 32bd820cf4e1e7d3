// What is said of a loss that is not finite: which part of it, and what it was computed from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <array>
#include <cmath>
#include <cstring>
#include <memory>

#include "tandem/base/error.h"
#include "tandem/rl/algo/impala/impala_run.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/env/env_adapter.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Rewards are 1, but for one of 1e30 in step 3 of an episode. Its square is beyond float32.
struct Jackpot {
  static Spec spec() {
    return {.id = "Jackpot-v0", .observation = {{.shape = {1}}}, .action = Discrete{2}, .max_episode_steps = 50};
  }
  std::array<float, 1> reset(NumpyGenerator&) {
    steps = 0;
    return {0};
  }
  StepResult<std::array<float, 1>> step(std::int64_t) {
    ++steps;
    return {{0.0F}, steps == 4 ? 1e30 : 1.0, false};
  }
  int steps = 0;
};

template <typename Setup>
void make_small(Setup& setup, LossKernel kernel) {
  setup.seed = 3;
  setup.total_steps = 4096;
  setup.shards = 2;
  setup.devices = {c10::Device(c10::kCPU)};
  setup.make_envs = [](int count) { return std::make_unique<EnvGroupOf<Jackpot>>(count); };
  setup.make_policy = [](const Spec& spec, at::Generator generator) {
    return std::make_shared<MlpPolicy>(spec, MlpPolicyOptions{}, generator);
  };
  if constexpr (requires { setup.ppo; }) {
    setup.ppo.num_envs = 4;
    setup.ppo.rollout_steps = 8;
    setup.ppo.minibatches = 1;
    setup.ppo.gae_lambda = 0;
    setup.ppo.kernel = kernel;
  } else {
    setup.impala.num_envs = 4;
    setup.impala.rollout_steps = 8;
    setup.impala.execution = ImpalaExecution::kInline;
    setup.impala.kernel = kernel;
  }
}

template <typename Run, typename Setup>
std::string failure_of(Setup setup) {
  try {
    Run run(std::move(setup));
    for (int update = 0; update < 4; ++update) (void)run.update();
  } catch (const RunError& error) {
    return error.what();
  }
  return "nothing failed";
}

TEST(LossFaultsTest, ARewardBeyondFloatNamesPartColumnEnvironmentAndStepAndNoLearningRate) {
  for (const LossKernel kernel : {LossKernel::kAuto, LossKernel::kOff, LossKernel::kRecorded}) {
    PpoSetup ppo;
    make_small(ppo, kernel);
    EXPECT_THAT(failure_of<PpoRun>(std::move(ppo)),
                AllOf(HasSubstr("shard 0: the loss of minibatch 0 is inf. Its part 'value_loss' is inf (policy_loss "),
                      HasSubstr("of the shard (environment "), HasSubstr(", step 3 of the rollout, from 0) is 1e+30"),
                      HasSubstr("whose square is beyond float32"), Not(HasSubstr("learning rate"))))
        << static_cast<int>(kernel);
    ImpalaSetup impala;
    make_small(impala, kernel);
    EXPECT_THAT(
        failure_of<ImpalaRun>(std::move(impala)),
        AllOf(HasSubstr("is inf. Its part 'value_loss' is inf (policy_loss "), HasSubstr("column 'reward' in row "),
              HasSubstr("is 1e+30, whose square is beyond float32"), Not(HasSubstr("learning rate"))))
        << static_cast<int>(kernel);
  }
}

// One row alone has a normalised advantage of 0: the policy would never move.
TEST(LossFaultsTest, NormalisedAdvantagesOfOneRowAreRefusedWithTheKey) {
  PpoOptions options;
  options.num_envs = 2;
  options.rollout_steps = 4;
  options.minibatches = 8;
  const auto faults = [&] { return faults_of(options, 1); };
  const auto refused = [](const char* words) { return ::testing::ElementsAre(HasSubstr(words)); };
  EXPECT_THAT(faults(), refused("minibatches = 8: makes minibatches of 1 row, whose advantage becomes 0"));
  EXPECT_THAT(faults(), refused("advantage_normalization: none"));
  options.minibatches.reset();
  options.minibatch_size = 1;
  EXPECT_THAT(faults(), refused("minibatch_size = 1: makes minibatches of 1 row"));
  options.fragments = Fragments::kUneven;
  EXPECT_THAT(faults(), refused("minibatch_size = 1: makes minibatches of 1 row"));
  options.advantage_normalization = AdvantageNormalization::kBatch;
  EXPECT_THAT(faults(), ::testing::IsEmpty());
  options.num_envs = options.rollout_steps = 1;
  EXPECT_THAT(faults(), refused("rollout_steps = 1: makes a rollout of 1 row"));
  options.advantage_normalization = AdvantageNormalization::kNone;
  EXPECT_THAT(faults(), ::testing::IsEmpty());
  options = {};
  options.num_envs = 2;
  options.rollout_steps = 4;
  EXPECT_THAT(faults(), ::testing::IsEmpty()) << "two rows are enough";
}

}  // namespace
}  // namespace tandem::rl
