#include "tandem/rl/algo/gradient_way.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/rl/policy/kernels/testing/computes_here.h"
#include "tandem/rl/policy/mlp_policy.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::rl {
namespace {

using ::testing::HasSubstr;

Spec spec_with(const Leaf& leaf, ActionSpace action) {
  Spec spec;
  spec.id = "Test-v0";
  spec.observation = {leaf};
  spec.action = std::move(action);
  return spec;
}

const Leaf kFloats{.name = "obs", .type = ElementType::kFloat32, .shape = {4}, .low = {}, .high = {}};
const Leaf kBytes{.name = "obs", .type = ElementType::kUInt8, .shape = {4}, .low = {}, .high = {}};
const Box kBox{{-1, -1}, {1, 1}};

std::shared_ptr<ActorCritic> policy_of(const Spec& spec, const MlpPolicyOptions& options = {.hidden = {8}}) {
  return mlp_policy_factory(options)(spec, at::detail::createCPUGenerator(1));
}

std::string why_not(const Spec& spec, const MlpPolicyOptions& options = {.hidden = {8}}) {
  return why_not_replayed(*policy_of(spec, options));
}

TEST(GradientWayTest, OnTheCpuItIsKernelsOrAutogradUnlessRecordingIsAskedFor) {
  const auto policy = policy_of(spec_with(kFloats, Discrete{2}));
  const GradientChoice fused = choose_gradients({.policy = *policy, .set = InstructionSet::kPortable});
  EXPECT_EQ(fused.way, GradientWay::kFused);
  EXPECT_THAT(fused.sentence, HasSubstr("by fused kernels (portable)"));

  const GradientChoice off = choose_gradients({.policy = *policy, .wanted = LossKernel::kOff, .option = "ppo.kernel"});
  EXPECT_EQ(off.way, GradientWay::kAutograd);
  EXPECT_THAT(off.sentence, HasSubstr("not by fused kernels: ppo.kernel is off"));

  const GradientChoice without = choose_gradients({.policy = *policy, .no_kernels = "there are none for KL"});
  EXPECT_EQ(without.way, GradientWay::kAutograd) << "on the CPU nothing is won by recording";
  EXPECT_THAT(without.sentence, HasSubstr("there are none for KL"));

  const GradientChoice pass =
      choose_gradients({.policy = *policy, .no_kernels = "there are none for KL", .has_one_pass = true});
  EXPECT_EQ(pass.way, GradientWay::kOnePass);
  EXPECT_THAT(pass.sentence, HasSubstr("in one pass over the rows"));
  EXPECT_EQ(choose_gradients({.policy = *policy, .wanted = LossKernel::kOff, .has_one_pass = true}).way,
            GradientWay::kAutograd);

  const GradientChoice recorded = choose_gradients({.policy = *policy, .wanted = LossKernel::kRecorded});
  EXPECT_EQ(recorded.way, GradientWay::kReplayed);
  EXPECT_THAT(recorded.sentence, HasSubstr("recorded once and, on a CPU, done again"));
}

TEST(GradientWayTest, WhatCannotBeRecordedIsRefusedWhereItIsAskedFor) {
  const auto policy = policy_of(spec_with(kFloats, Discrete{2}));
  try {
    (void)choose_gradients({.policy = *policy,
                            .wanted = LossKernel::kRecorded,
                            .option = "ppo.kernel",
                            .no_replay = "minibatches differ in their rows"});
    FAIL() << "recorded";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("ppo.kernel: recorded was asked for"));
    EXPECT_THAT(error.what(), HasSubstr("minibatches differ in their rows; use auto or off"));
  }
}

// Nobody who asks for bfloat16 gets something else.
TEST(GradientWayTest, RoundedProductsAreThoseOfKernelsOrRefused) {
  const auto policy = policy_of(spec_with(kFloats, Discrete{2}));
  const auto refusal = [&](GradientQuestion question) -> std::string {
    question.compute = Compute::kBfloat16;
    try {
      (void)choose_gradients(question);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({.policy = *policy, .set = InstructionSet::kPortable}), HasSubstr("instruction set avx512"));
  EXPECT_THAT(refusal({.policy = *policy, .wanted = LossKernel::kOff, .option = "ppo.kernel"}),
              HasSubstr("do not serve this run: ppo.kernel is off; use float32"));
  EXPECT_THAT(refusal({.policy = *policy, .wanted = LossKernel::kRecorded, .option = "ppo.kernel"}),
              HasSubstr("ppo.kernel is recorded"));
  EXPECT_THAT(refusal({.policy = *policy, .no_kernels = "there are none for KL"}), HasSubstr("there are none for KL"));
  for (const Compute compute : testing::computes_here()) {
    const GradientQuestion question{.policy = *policy, .compute = compute, .set = InstructionSet::kAvx512};
    EXPECT_THAT(choose_gradients(question).sentence, HasSubstr(std::string("products of ") + name_of(compute)));
  }
}

TEST(GradientWayTest, RecordedArePassesThatNeitherWaitForTheDeviceNorCopyToIt) {
  EXPECT_EQ(why_not(spec_with(kFloats, Discrete{2})), "");
  EXPECT_EQ(why_not(spec_with(kFloats, kBox)), "");
  EXPECT_EQ(why_not(spec_with(kFloats, MultiDiscrete{{3, 3}})), "");
  EXPECT_THAT(why_not(spec_with(kFloats, MultiDiscrete{{3, 2}})), HasSubstr("different numbers of options"));
  EXPECT_EQ(why_not(spec_with(kBytes, Discrete{2})), "observations have integers");
  EXPECT_EQ(why_not(spec_with(kFloats, kBox), {.hidden = {8}, .family = ActionFamily::kSquashedNormal}),
            "the entropy of squashed_normal actions is estimated");
}

TEST(GradientWayTest, OtherPoliciesAndFrozenOnesAreNotRecorded) {
  const Spec spec = spec_with(kFloats, Discrete{2});
  const auto remembers = recurrent_policy_factory({.mlp = {.hidden = {8}}, .cell = CellKind::kLstm, .size = 4})(
      spec, at::detail::createCPUGenerator(1));
  EXPECT_EQ(why_not_replayed(*remembers), "the policy is no MLP policy");
  const auto policy = policy_of(spec);
  policy->parameters().back().set_requires_grad(false);
  EXPECT_THAT(why_not_replayed(*policy), HasSubstr("is frozen"));
}

}  // namespace
}  // namespace tandem::rl
