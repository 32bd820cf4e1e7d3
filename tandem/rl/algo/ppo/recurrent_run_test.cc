// PPO and IMPALA with policies that remember.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/rl/algo/impala/impala_run.h"
#include "tandem/rl/algo/ppo/ppo_rows.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/algo/testing/recurrent_ppo.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/policy/mlp_policy.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::rl {
namespace {

using testing::recurrent_ppo;

// With the policy that acted, ratios are 1 for every row that is learned from, whatever the sequences: which states
// they start from, where episodes end in them, and padding.
TEST(RecurrentPpoTest, EveryRowIsSeenAsItWasWhenActing) {
  for (const SequenceOptions sequences : {SequenceOptions{32, 0}, SequenceOptions{7, 0}, SequenceOptions{8, 5},
                                          SequenceOptions{5, 9}, SequenceOptions{1, 0}, SequenceOptions{40, 40}}) {
    PpoSetup setup = recurrent_ppo(sequences);
    setup.ppo.epochs = 1;
    setup.ppo.minibatches = 1;
    setup.ppo.learning_rate = 1e-2;
    PpoRun run(std::move(setup));
    for (int i = 0; i < 4; ++i) {
      const RunReport report = run.update();
      EXPECT_NEAR(report.learning.approx_kl, 0, 1e-7) << sequences.length << " " << sequences.burn_in;
      EXPECT_NEAR(report.learning.policy_loss, 0, 1e-4) << sequences.length << " " << sequences.burn_in;
      EXPECT_EQ(report.learning.clip_fraction, 0);
      if (i == 3) {
        EXPECT_GT(report.episodes, 0);
      }
    }
  }
}

// The mean is over the rows that are learned from, however many lie in padding: the same losses for all cuts.
TEST(RecurrentPpoTest, PaddingAndBurnInCountForNothingInTheMeans) {
  const auto first = [](const SequenceOptions& sequences) {
    PpoSetup setup = recurrent_ppo(sequences, 2);
    setup.ppo.epochs = 1;
    setup.ppo.minibatches = 1;
    PpoRun run(std::move(setup));
    return run.update().learning;
  };
  const LearnReport expected = first({32, 0});
  for (const SequenceOptions sequences : {SequenceOptions{31, 0}, SequenceOptions{7, 0}, SequenceOptions{9, 4}}) {
    const LearnReport other = first(sequences);
    EXPECT_NEAR(other.value_loss, expected.value_loss, 1e-5 * expected.value_loss);
    EXPECT_NEAR(other.entropy, expected.entropy, 1e-6);
  }
}

std::string recurrent_state_after(PpoSetup setup, int updates) {
  PpoRun run(std::move(setup));
  for (int i = 0; i < updates; ++i) (void)run.update();
  return run.state_sha256();
}

TEST(RecurrentPpoTest, EveryTopologyGivesTheSameBits) {
  for (const CellKind cell : {CellKind::kLstm, CellKind::kGru}) {
    const std::string expected = recurrent_state_after(recurrent_ppo({10, 3}, 1, cell), 4);
    for (const int replicas : {2, 4})
      EXPECT_EQ(recurrent_state_after(recurrent_ppo({10, 3}, replicas, cell), 4), expected);
  }
}

TEST(RecurrentPpoTest, ARunThatWasSavedAndLoadedOnAnotherTopologyGoesOnExactly) {
  const std::string expected = recurrent_state_after(recurrent_ppo({10, 3}, 2), 6);
  PpoRun first(recurrent_ppo({10, 3}, 1));
  for (int i = 0; i < 3; ++i) (void)first.update();
  const learner::StateParts parts = first.save();
  PpoRun second(recurrent_ppo({10, 3}, 4));
  const auto resumed = second.load([&](const std::string& name) { return learner::part_of(parts, name); });
  EXPECT_EQ(resumed, RolloutWorker::Resumed::kExactly);
  for (int i = 0; i < 3; ++i) (void)second.update();
  EXPECT_EQ(second.state_sha256(), expected);
}

TEST(RecurrentPpoTest, SequencesThatDoNotDivideAndPoliciesThatDoNotRememberAreRefused) {
  PpoSetup odd = recurrent_ppo({16, 0});
  odd.ppo.minibatches = 3;
  try {
    const PpoRun run(std::move(odd));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("minibatches = 3: does not divide the 4 sequences of a shard's"));
  }
  PpoSetup memoryless = recurrent_ppo({16, 0});
  memoryless.make_policy = mlp_policy_factory({});
  EXPECT_THROW(PpoRun(std::move(memoryless)), ConfigError);
  PpoSetup without = recurrent_ppo({16, 0});
  without.ppo.sequences.reset();
  EXPECT_THROW(PpoRun(std::move(without)), ConfigError);
}

ImpalaSetup recurrent_impala(int length) {
  ImpalaSetup setup;
  setup.seed = 3;
  setup.total_steps = 4096;
  setup.impala.num_envs = 4;
  setup.impala.workers = 1;
  setup.impala.rollout_steps = 16;
  setup.impala.execution = ImpalaExecution::kInline;
  setup.impala.learning_rate = 1e-2;
  setup.impala.sequence_length = length;
  setup.make_envs = [](int count) { return EnvRegistry::native().make("MaskedCartPole-v1", count); };
  setup.make_policy = recurrent_policy_factory({.mlp = {.hidden = {16}}, .size = 8});
  return setup;
}

// One worker on one thread: the learner's weights are those that acted.
TEST(RecurrentImpalaTest, EveryRowIsSeenAsItWasWhenActing) {
  for (const int length : {16, 5, 100}) {
    ImpalaRun run(recurrent_impala(length));
    for (int i = 0; i < 6; ++i) EXPECT_NEAR(run.update().learning.approx_kl, 0, 1e-7) << length;
    EXPECT_GT(run.episodes().total(), 3);
  }
}

// The first steps are not learned from, and everything else is as ever, by kernels and by operations.
TEST(RecurrentImpalaTest, BurnInIsLeftOutOfTheLoss) {
  for (const LossKernel kernel : {LossKernel::kAuto, LossKernel::kOff}) {
    for (const int burn_in : {1, 5, 15}) {
      ImpalaSetup setup = recurrent_impala(6);
      setup.impala.burn_in = burn_in;
      setup.impala.kernel = kernel;
      ImpalaRun run(std::move(setup));
      for (int i = 0; i < 4; ++i) EXPECT_NEAR(run.update().learning.approx_kl, 0, 1e-7) << burn_in;
    }
  }
  ImpalaSetup all = recurrent_impala(6);
  all.impala.burn_in = 16;
  EXPECT_THROW(ImpalaRun(std::move(all)), ConfigError);
}

// The same rows have the same losses: a rollout by operations, and one step from it.
TEST(RecurrentPpoTest, KernelsAndOperationsGoOnFromOneStateAlike) {
  const auto losses_by = [](LossKernel kernel) {
    PpoSetup setup = recurrent_ppo({10, 3});
    setup.ppo.kernel = kernel;
    setup.actor.memory = ActingWithMemory::kByOperations;
    PpoRun run(std::move(setup));
    return run.update().learning;
  };
  const LearnReport kernels = losses_by(LossKernel::kAuto), operations = losses_by(LossKernel::kOff);
  EXPECT_NEAR(kernels.value_loss, operations.value_loss, 1e-4 * operations.value_loss);
  EXPECT_NEAR(kernels.policy_loss, operations.policy_loss, 1e-4);
  EXPECT_NEAR(kernels.grad_norm, operations.grad_norm, 1e-3 * operations.grad_norm);
}

TEST(RecurrentImpalaTest, ARunThatWasSavedAndLoadedGoesOnAsTheOneThatWasSaved) {
  ImpalaRun first(recurrent_impala(8));
  for (int i = 0; i < 3; ++i) (void)first.update();
  const learner::StateParts parts = first.save();
  ImpalaRun second(recurrent_impala(8));
  (void)second.load([&](const std::string& name) { return learner::part_of(parts, name); });
  for (int i = 0; i < 2; ++i) {
    (void)first.update();
    (void)second.update();
  }
  EXPECT_EQ(second.state_sha256(), first.state_sha256());
}

TEST(RecurrentImpalaTest, ThreadsToo) {
  ImpalaSetup setup = recurrent_impala(8);
  setup.impala.workers = 2;
  setup.impala.execution = ImpalaExecution::kThreads;
  ImpalaRun run(std::move(setup));
  while (run.env_steps() < 4096 || !run.all_reported()) (void)run.update();
  EXPECT_EQ(run.env_steps(), 4096);
}

}  // namespace
}  // namespace tandem::rl
