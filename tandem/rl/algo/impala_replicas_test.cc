// IMPALA and APPO with several replicas of the learner.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/rl/algo/impala_run.h"
#include "tandem/rl/algo/run_parts.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/policy/mlp_policy.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::rl {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kSteps = 20 * 8 * 16;  // batches of two workers with eight environments each

struct Variant {
  std::string name;
  bool appo = false;
  LossKernel kernel = LossKernel::kAuto;
  bool remembers = false;
  sync::StrategyOptions strategy = {};
};

ImpalaSetup replicated_setup(const Variant& variant, int shards, int replicas) {
  ImpalaSetup setup;
  setup.seed = 3;
  setup.total_steps = kSteps;
  setup.shards = shards;
  setup.devices = std::vector<c10::Device>(static_cast<std::size_t>(replicas), c10::Device(c10::kCPU));
  setup.impala.num_envs = 16;
  setup.impala.rollout_steps = 16;
  setup.impala.execution = ImpalaExecution::kInline;
  setup.impala.batches_per_update = 5;
  setup.impala.kernel = variant.kernel;
  if (variant.appo) {
    setup.appo = AppoOptions{.target_update_steps = 3};
    setup.impala.passes = 2;
  }
  setup.strategy = variant.strategy;
  setup.make_envs = [](int count) { return EnvRegistry::native().make("MaskedCartPole-v1", count); };
  setup.make_policy = mlp_policy_factory({.hidden = {16}});
  if (variant.remembers) {
    setup.impala.sequence_length = 5;
    setup.make_policy = recurrent_policy_factory({.mlp = {.hidden = {16}}, .cell = CellKind::kLstm, .size = 8});
  }
  return setup;
}

RunReport run_to_the_end(ImpalaRun& run) {
  RunReport last;
  while (run.env_steps() < kSteps || !run.all_reported()) last = run.update();
  return last;
}

std::string state_of(const Variant& variant, int shards, int replicas) {
  ImpalaRun run(replicated_setup(variant, shards, replicas));
  (void)run_to_the_end(run);
  return run.state_sha256();
}

class ImpalaReplicasTest : public ::testing::TestWithParam<Variant> {};

TEST_P(ImpalaReplicasTest, WithTheSameShardsAnyNumberOfReplicasGivesTheSameBits) {
  const std::string expected = state_of(GetParam(), 4, 1);
  EXPECT_EQ(state_of(GetParam(), 4, 2), expected);
  EXPECT_EQ(state_of(GetParam(), 4, 4), expected);
  EXPECT_NE(state_of(GetParam(), 1, 1), expected) << "sums over other parts are rounded otherwise";
}

TEST_P(ImpalaReplicasTest, ARunThatWasSavedGoesOnWithTheSameBitsOnOtherReplicas) {
  ImpalaRun first(replicated_setup(GetParam(), 4, 4)), second(replicated_setup(GetParam(), 4, 2));
  for (int i = 0; i < 2; ++i) (void)first.update();
  const learner::StateParts parts = first.save();
  EXPECT_EQ(second.load([&](const std::string& name) { return learner::part_of(parts, name); }),
            RolloutWorker::Resumed::kExactly);
  EXPECT_EQ(second.state_sha256(), first.state_sha256());
  (void)run_to_the_end(first);
  (void)run_to_the_end(second);
  EXPECT_EQ(second.state_sha256(), first.state_sha256());
  const auto counters = [](ImpalaRun& run) { return find(learner::part_of(run.save(), "run"), "counters", "run"); };
  EXPECT_TRUE(at::equal(counters(second), counters(first))) << "what all replicas learned from is counted";
}

INSTANTIATE_TEST_SUITE_P(Of, ImpalaReplicasTest,
                         ::testing::Values(Variant{"Impala"}, Variant{"ImpalaAutograd", false, LossKernel::kOff},
                                           Variant{"Appo", true}, Variant{"AppoAutograd", true, LossKernel::kOff},
                                           Variant{"ImpalaLstm", false, LossKernel::kAuto, true},
                                           Variant{"AppoLstm", true, LossKernel::kAuto, true},
                                           Variant{"Divided", false, LossKernel::kAuto, false, sync::DividedOptions{}},
                                           Variant{"ParameterServer", true, LossKernel::kAuto, false,
                                                   sync::ParameterServerOptions{}}),
                         [](const auto& test) { return test.param.name; });

// Means over shards of equal rows are means over the batch, so cuts only round otherwise.
TEST(ImpalaShardsTest, ABatchInShardsIsTheSameBatch) {
  for (const bool remembers : {false, true}) {
    const Variant variant{.name = "", .kernel = LossKernel::kOff, .remembers = remembers};
    const auto first = [&](int shards) {
      ImpalaSetup setup = replicated_setup(variant, shards, shards);
      setup.impala.batches_per_update = 1;
      ImpalaRun run(std::move(setup));
      return run.update().learning;
    };
    const LearnReport whole = first(1), parts = first(4);
    EXPECT_NEAR(parts.policy_loss, whole.policy_loss, 1e-5);
    EXPECT_NEAR(parts.value_loss, whole.value_loss, 1e-5 * whole.value_loss);
    EXPECT_NEAR(parts.entropy, whole.entropy, 1e-5);
    EXPECT_NEAR(parts.grad_norm, whole.grad_norm, 1e-4 * whole.grad_norm);
  }
}

TEST(ImpalaReplicasOnThreadsTest, EveryStepIsLearnedFromOnceByOneReplica) {
  ImpalaSetup setup = replicated_setup({.name = ""}, 2, 2);
  setup.impala.execution = ImpalaExecution::kThreads;
  ImpalaRun run(std::move(setup));
  EXPECT_EQ(run.replicas(), 2);
  EXPECT_EQ(run.shards(), 2);
  const RunReport last = run_to_the_end(run);
  EXPECT_EQ(last.pipeline->samples_trained, kSteps);
  (void)run.state_sha256();
  for (const auto& work : run.work()) EXPECT_EQ(work.rows, kSteps / 2);
  EXPECT_EQ(run.work().size(), 2u);
}

// Fails in the forward pass of one replica's copy.
class FailingPolicy final : public ActorCritic {
 public:
  FailingPolicy(const Spec& spec, at::Generator generator, bool fails)
      : ActorCritic(spec),
        fails_(fails),
        inner_(register_module(
            "inner", std::make_shared<MlpPolicy>(spec, MlpPolicyOptions{.hidden = {8}}, std::move(generator)))) {}
  PolicyOutput forward(const Observation& observation) override {
    if (fails_ && ++calls_ == 4) throw DataError("the second replica broke");
    return inner_->forward(observation);
  }

 private:
  const bool fails_;
  std::shared_ptr<MlpPolicy> inner_;
  int calls_ = 0;
};

TEST(ImpalaReplicasOnThreadsTest, AReplicaThatFailsEndsTheRunWithItsReason) {
  ImpalaSetup setup = replicated_setup({.name = "", .kernel = LossKernel::kOff}, 2, 2);
  setup.impala.execution = ImpalaExecution::kThreads;
  int built = 0;
  setup.make_policy = [&built](const Spec& spec, at::Generator generator) {
    return std::make_shared<FailingPolicy>(spec, std::move(generator), ++built == 2);
  };
  ImpalaRun run(std::move(setup));
  try {
    (void)run_to_the_end(run);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("learner: "));
    EXPECT_THAT(error.what(), HasSubstr("the second replica broke"));
  }
}

std::string refusal_of(ImpalaSetup setup) {
  try {
    const ImpalaRun run(std::move(setup));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(ImpalaReplicasOptionsTest, WhatDoesNotFitIsRefusedWithBothNumbers) {
  EXPECT_THAT(refusal_of(replicated_setup({.name = ""}, 0, 1)), HasSubstr("shards is 0; it must be at least 1"));
  EXPECT_THAT(refusal_of(replicated_setup({.name = ""}, 1, 0)), HasSubstr("devices is empty"));
  EXPECT_THAT(refusal_of(replicated_setup({.name = ""}, 3, 1)),
              HasSubstr("num_envs = 16: gives a batch the 8 environments of one rollout worker, which do not divide "
                        "into 3 shards; 12 or 18 would, or shards: 2 or 4"));
  EXPECT_THAT(refusal_of(replicated_setup({.name = ""}, 16, 16)), HasSubstr("32 would"));  // smaller than the devices
  EXPECT_THAT(refusal_of(replicated_setup({.name = ""}, 1, 2)), HasSubstr("2 replicas"));
  EXPECT_THAT(refusal_of(replicated_setup({.name = "", .strategy = sync::AsynchronousOptions{}}, 2, 2)),
              HasSubstr("the learner has 2 replicas, which all make each step"));
}

}  // namespace
}  // namespace tandem::rl
