// PPO, IMPALA and APPO on images: uint8 up to the policy's forward, and runs as reproducible as others.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/algo/impala/impala_run.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/policy/kernels/testing/computes_here.h"
#include "tandem/rl/policy/mlp_policy.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::rl {
namespace {

const MlpPolicyOptions kSmall{.hidden = {16}, .trunks = Trunks::kShared, .torso = {.channels = {4, 8}, .blocks = 1}};

// Says what arrives at it: when acting, and when learning.
struct SeesPixels final : ActorCritic {
  SeesPixels(const Spec& spec, at::Generator generator) : ActorCritic(spec) {
    inner = register_module("inner", std::make_shared<MlpPolicy>(spec, kSmall, std::move(generator)));
  }
  PolicyOutput forward(const Observation& observation) override {
    EXPECT_EQ(observation[0].scalar_type(), at::kByte);
    EXPECT_EQ(observation[0].sizes().slice(1), (std::vector<std::int64_t>{1, 12, 12}));
    (at::GradMode::is_enabled() ? learned : acted) += observation[0].size(0);
    return inner->forward(observation);
  }
  std::shared_ptr<MlpPolicy> inner;
  std::int64_t acted = 0, learned = 0;  // rows
};

template <typename Setup>
Setup on_catch() {
  Setup setup;
  setup.seed = 3;
  setup.total_steps = 4096;
  setup.make_envs = [](int count) { return EnvRegistry::native().make("Catch-v0", count); };
  setup.make_policy = mlp_policy_factory(kSmall);
  return setup;
}

PpoSetup ppo_on_catch(int replicas) {
  auto setup = on_catch<PpoSetup>();
  setup.shards = 4;
  setup.devices = std::vector<c10::Device>(static_cast<std::size_t>(replicas), c10::Device(c10::kCPU));
  setup.ppo.num_envs = 8;
  setup.ppo.rollout_steps = 16;
  setup.ppo.epochs = 2;
  setup.ppo.minibatches = 2;
  return setup;
}

ImpalaSetup impala_on_catch(std::optional<AppoOptions> appo) {
  auto setup = on_catch<ImpalaSetup>();
  setup.impala.num_envs = 8;
  setup.impala.workers = 2;
  setup.impala.rollout_steps = 16;
  setup.impala.execution = ImpalaExecution::kInline;
  setup.appo = appo;
  return setup;
}

TEST(ImageRunTest, PixelsStayBytesUpToThePolicy) {
  std::vector<std::shared_ptr<SeesPixels>> made;
  const PolicyFactory factory = [&made](const Spec& spec, at::Generator generator) {
    return made.emplace_back(std::make_shared<SeesPixels>(spec, std::move(generator)));
  };
  const auto rows = [&made] {
    std::int64_t acted = 0, learned = 0;
    for (const auto& policy : made) acted += policy->acted, learned += policy->learned;
    made.clear();
    return std::pair(acted, learned);
  };
  PpoSetup ppo = ppo_on_catch(1);
  ppo.make_policy = factory;
  (void)PpoRun(std::move(ppo)).update();
  EXPECT_EQ(rows(), std::pair(std::int64_t{8 * 17}, std::int64_t{2 * 8 * 16}));
  ImpalaSetup impala = impala_on_catch({});
  impala.impala.batches_per_update = 1;
  impala.make_policy = factory;
  (void)ImpalaRun(std::move(impala)).update();
  const auto [acted, learned] = rows();
  EXPECT_GE(acted, 4 * 17);
  EXPECT_EQ(learned, 4 * 17);
}

std::string image_state_after(PpoSetup setup, int updates) {
  PpoRun run(std::move(setup));
  for (int i = 0; i < updates; ++i) (void)run.update();
  return run.state_sha256();
}

TEST(ImageRunTest, EveryTopologyGivesTheSameBits) {
  const std::string expected = image_state_after(ppo_on_catch(1), 4);
  for (const int replicas : {2, 4}) EXPECT_EQ(image_state_after(ppo_on_catch(replicas), 4), expected) << replicas;
}

TEST(ImageRunTest, APpoRunThatWasSavedGoesOnExactlyOnAnotherTopology) {
  PpoRun first(ppo_on_catch(1)), second(ppo_on_catch(2));
  for (int i = 0; i < 3; ++i) (void)first.update();
  const learner::StateParts parts = first.save();
  const auto resumed = second.load([&](const std::string& name) { return learner::part_of(parts, name); });
  EXPECT_EQ(resumed, RolloutWorker::Resumed::kExactly);
  for (int i = 0; i < 2; ++i) {
    (void)first.update();
    (void)second.update();
  }
  EXPECT_EQ(second.state_sha256(), first.state_sha256());
}

TEST(ImageRunTest, ImpalaAndAppoRunsThatWereSavedGoOnExactly) {
  for (const std::optional<AppoOptions>& appo : {std::optional<AppoOptions>(), std::optional(AppoOptions{})}) {
    ImpalaRun first(impala_on_catch(appo)), second(impala_on_catch(appo));
    for (int i = 0; i < 3; ++i) (void)first.update();
    const learner::StateParts parts = first.save();
    (void)second.load([&](const std::string& name) { return learner::part_of(parts, name); });
    for (int i = 0; i < 2; ++i) {
      (void)first.update();
      (void)second.update();
    }
    EXPECT_EQ(second.state_sha256(), first.state_sha256());
    EXPECT_GT(first.episodes().total(), 10);
  }
}

TEST(ImageRunTest, ImpalaAndAppoMultiplyWhatTheyAreAskedTo) {
  for (const std::optional<AppoOptions>& appo : {std::optional<AppoOptions>(), std::optional(AppoOptions{})}) {
    const auto run_with = [&appo](Compute compute) {
      ImpalaSetup setup = impala_on_catch(appo);
      setup.impala.compute = compute;
      setup.make_policy = mlp_policy_factory({.hidden = {32}, .trunks = Trunks::kShared});  // wide enough to round
      ImpalaRun run(std::move(setup));
      (void)run.update();
      return std::pair(run.state_sha256(), run.gradients_by());
    };
    const auto [in_floats, by_floats] = run_with(Compute::kFloat32);
    EXPECT_THAT(by_floats, ::testing::Not(::testing::HasSubstr("products")));
    for (const Compute compute : testing::computes_here()) {
      const auto [rounded, by] = run_with(compute);
      EXPECT_THAT(by, ::testing::HasSubstr(concat("products of ", name_of(compute))));
      EXPECT_NE(rounded, in_floats);
      EXPECT_EQ(run_with(compute).first, rounded);
    }
  }
}

// With the policy that acted, ratios are 1: acting and learning see the same pixels and states.
TEST(ImageRunTest, APolicyThatRemembersSeesEveryRowAsItWasWhenActing) {
  PpoSetup setup = ppo_on_catch(2);
  setup.ppo.epochs = 1;
  setup.ppo.minibatches = 1;
  setup.ppo.sequences = SequenceOptions{.length = 5};
  setup.make_policy = recurrent_policy_factory({.mlp = kSmall, .size = 8});
  PpoRun run(std::move(setup));
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(run.update().learning.approx_kl, 0, 1e-6);
}

TEST(ImageRunTest, PixelsAreNotNormalised) {
  PpoSetup setup = ppo_on_catch(1);
  setup.normalizer.observations = true;
  try {
    const PpoRun run(std::move(setup));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("'image' is not of floats"));
  }
}

}  // namespace
}  // namespace tandem::rl
