// IMPALA and APPO with several replicas of the learner.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/rl/algo/impala/impala_learner.h"
#include "tandem/rl/algo/impala/impala_loss.h"
#include "tandem/rl/algo/impala/impala_run.h"
#include "tandem/rl/algo/impala/trajectory.h"
#include "tandem/rl/algo/run_parts.h"
#include "tandem/rl/algo/testing/small_impala.h"
#include "tandem/rl/policy/mlp_policy.h"

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
  ImpalaSetup setup = testing::small_impala({.appo = variant.appo,
                                             .remembers = variant.remembers,
                                             .shards = shards,
                                             .replicas = replicas,
                                             .strategy = variant.strategy});
  setup.total_steps = kSteps;
  setup.impala.kernel = variant.kernel;
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

TEST(ImpalaRecordedTest, RecordedPassesHaveTheBitsAndTheNumbersOfAutograd) {
  for (const bool appo : {false, true}) {
    const auto setup = [appo](LossKernel kernel, int replicas) {
      return replicated_setup({.name = "Recorded", .appo = appo, .kernel = kernel}, 4, replicas);
    };
    ImpalaRun autograd(setup(LossKernel::kOff, 1));
    const LearnReport wanted = run_to_the_end(autograd).learning;
    for (const int replicas : {1, 2}) {
      ImpalaRun recorded(setup(LossKernel::kRecorded, replicas));
      const LearnReport now = run_to_the_end(recorded).learning;
      EXPECT_EQ(recorded.state_sha256(), autograd.state_sha256()) << (appo ? "APPO" : "IMPALA") << " on " << replicas;
      for (const auto& [name, loss] : kLosses) EXPECT_EQ(now.*loss, wanted.*loss) << name << ", " << replicas;
      EXPECT_EQ(now.explained_variance, wanted.explained_variance) << replicas;
    }
  }
}

class ImpalaReplicasTest : public ::testing::TestWithParam<Variant> {};

TEST_P(ImpalaReplicasTest, WithTheSameShardsAnyNumberOfReplicasGivesTheSameBits) {
  const std::string expected = state_of(GetParam(), 4, 1);
  EXPECT_EQ(state_of(GetParam(), 4, 2), expected);
  EXPECT_EQ(state_of(GetParam(), 4, 4), expected);
  EXPECT_NE(state_of(GetParam(), 1, 1), expected) << "other env groups, and sums over other parts";
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

// An earlier build gave a rollout worker one env group for all shards, as a run of one shard has it.
TEST(ImpalaResumeTest, ACheckpointWithEnvGroupsOfWholeWorkersNamesItsCauseAndTheNumbers) {
  ImpalaRun divided(replicated_setup({.name = ""}, 4, 2)), whole(replicated_setup({.name = ""}, 1, 1));
  (void)divided.update();
  (void)whole.update();
  const learner::StateParts parts = divided.save(), undivided = whole.save();
  ImpalaRun next(replicated_setup({.name = ""}, 4, 1));
  const auto load = [&](const learner::StateParts& groups) {
    (void)next.load([&](const std::string& name) {
      return learner::part_of(name.starts_with("env-group-") ? groups : parts, name);
    });
  };
  try {
    load(undivided);
    FAIL();
  } catch (const OutdatedCheckpoint& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("'env-group-0' has all 8 environments of a rollout worker, and this run's has 2 of them "
                          "(num_envs 16 / 2 workers / 4 shards / 1 splits): an earlier build wrote it"));
  }
  load(parts);
  ImpalaRun other(replicated_setup({.name = ""}, 4, 1));
  try {  // other shards are no earlier build's doing
    (void)other.load([&](const std::string& name) { return learner::part_of(undivided, name); });
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_EQ(dynamic_cast<const OutdatedCheckpoint*>(&error), nullptr) << error.what();
  }
}

// What one step learns from a fragment of eight environments in so many shards.
struct Learned {
  ImpalaNumbers numbers;
  double grad_norm = 0;
};
Learned learned_from(const Fragment& whole, const Variant& variant, int shards) {
  const ImpalaSetup setup = replicated_setup(variant, shards, shards);
  const Spec spec = setup.make_envs(1)->spec();
  ImpalaLearner learner(
      setup, {.build = [&] { return setup.make_policy(spec, at::detail::createCPUGenerator(7)); }, .seed = setup.seed},
      std::chrono::minutes(1));
  const int rows = whole.rows / shards;
  const std::int64_t state_size = whole.state.defined() ? whole.state.size(2) : 0;
  std::vector<learner::Batch> batches;
  for (int shard = 0; shard < shards; ++shard) {
    const Fragment part(spec, whole.steps, rows, KeptStates{.sequences = 1, .size = state_size});
    const auto take = [&](const at::Tensor& from, const at::Tensor& to) {
      if (to.defined()) to.copy_(from.narrow(1, shard * rows, rows));
    };
    for (std::size_t leaf = 0; leaf < whole.observation.size(); ++leaf)
      take(whole.observation[leaf], part.observation[leaf]);
    take(whole.action_mask, part.action_mask);
    take(whole.action, part.action);
    take(whole.log_prob, part.log_prob);
    take(whole.reward, part.reward);
    take(whole.done, part.done);
    take(whole.state, part.state);
    Trajectory trajectory(part, 1, learner.shard_devices()[static_cast<std::size_t>(shard)]);
    trajectory.copy_from({&part, 1});
    batches.push_back(trajectory.batch());
  }
  const ImpalaLearner::Step step = learner.step(batches, 1);
  return {.numbers = mean_of(step.shards), .grad_norm = step.grad_norm};
}

// Means over shards of equal rows are means over the batch, so cuts only round otherwise.
TEST(ImpalaShardsTest, ABatchInShardsIsTheSameBatch) {
  for (const bool remembers : {false, true}) {
    const Variant variant{.name = "", .kernel = LossKernel::kOff, .remembers = remembers};
    const ImpalaSetup setup = replicated_setup(variant, 1, 1);
    std::unique_ptr<EnvGroup> group = setup.make_envs(8);
    const Spec spec = group->spec();
    const std::shared_ptr<ActorCritic> policy = setup.make_policy(spec, at::detail::createCPUGenerator(7));
    policy->eval();
    std::unique_ptr<Actor> actor = make_actor(*policy, setup.actor, 8, setup.seed, 0);
    RolloutWorker rollouts(
        std::move(group), std::move(actor),
        {.steps = setup.impala.rollout_steps, .sequences = {.length = setup.impala.rollout_steps}, .normalizer = {}},
        0);
    rollouts.reset(setup.seed);
    const Normalizers plain(spec, {});
    (void)rollouts.collect(plain);  // so that the next begins with something to remember
    const Fragment& fragment = rollouts.collect(plain);
    const Learned whole = learned_from(fragment, variant, 1), parts = learned_from(fragment, variant, 4);
    EXPECT_NEAR(parts.numbers.policy_loss, whole.numbers.policy_loss, 1e-5);
    EXPECT_NEAR(parts.numbers.value_loss, whole.numbers.value_loss, 1e-5 * whole.numbers.value_loss);
    EXPECT_NEAR(parts.numbers.entropy, whole.numbers.entropy, 1e-5);
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
