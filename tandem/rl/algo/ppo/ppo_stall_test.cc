// PPO when an environment hangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/testing/wrapped_envs.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {
namespace {

using ::testing::HasSubstr;

constexpr int kEnvsOfGroup = 3;
constexpr std::chrono::seconds kStepLimit{3};
constexpr std::chrono::milliseconds kLateStep{4500};  // the run has failed by then, and still waits

// One of its steps takes too long.
class LateEnvs final : public testing::WrappedEnvs {
 public:
  LateEnvs(std::unique_ptr<EnvGroup> inner, int late_step) : WrappedEnvs(std::move(inner)), late_step_(late_step) {}
  void step(const EnvActions& actions, const EnvArrays& out) override {
    if (steps_++ == late_step_) std::this_thread::sleep_for(kLateStep);
    WrappedEnvs::step(actions, out);
  }

 private:
  const int late_step_;
  int steps_ = 0;
};

PpoSetup setup_with_late_step(int shards, int late_group, int late_step) {
  PpoSetup setup;
  setup.total_steps = 1'000'000;
  setup.rng = model::RngOrder::kUnordered;  // other runs of this process draw while they are built
  setup.shards = shards;
  setup.devices.assign(2, c10::Device(c10::kCPU));
  setup.ppo.num_envs = shards * kEnvsOfGroup;
  setup.ppo.rollout_steps = 8;
  setup.ppo.minibatches = 2;
  setup.ppo.epochs = 1;
  setup.ppo.stall_timeout = kStepLimit.count();
  setup.make_policy = mlp_policy_factory({.hidden = {8}});
  // The first group is made to ask for its spec.
  setup.make_envs = [late_group, late_step, made = -1](int count) mutable -> std::unique_ptr<EnvGroup> {
    std::unique_ptr<EnvGroup> envs = EnvRegistry::native().make("CartPole-v1", count);
    if (made++ != late_group) return envs;
    return std::make_unique<LateEnvs>(std::move(envs), late_step);
  };
  return setup;
}

// Whichever group it is and whenever, also while the other replica waits to learn from what it brings.
TEST(PpoStallTest, AStepThatTakesTooLongEndsTheRunAndNamesTheGroup) {
  std::vector<std::jthread> runs;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    runs.emplace_back([seed] {
      SCOPED_TRACE(seed);
      Philox random(seed, 0);
      const int shards = 2 << random.below(2),
                group = static_cast<int>(random.below(static_cast<std::uint64_t>(shards)));
      PpoRun run(setup_with_late_step(shards, group, static_cast<int>(random.below(60))));
      const Clock::time_point begun = Clock::now();
      try {
        while (run.updates() < 50) (void)run.update();
        ADD_FAILURE() << "the run has ended by itself";
      } catch (const DeadlineExceeded& error) {
        EXPECT_EQ(dynamic_cast<const HungThread*>(&error), nullptr) << error.what();
        EXPECT_THAT(error.what(), HasSubstr("in one step: " + name_of_group("CartPole-v1", group, kEnvsOfGroup)));
        EXPECT_THAT(error.what(), HasSubstr("3 s are allowed (ppo.stall_timeout)"));
      }
      EXPECT_LT(seconds_since(begun), 60) << "as long as replicas wait for each other";
    });
  }
}

class LateGroup final : public MultiAgentGroup {
 public:
  explicit LateGroup(std::unique_ptr<MultiAgentGroup> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] const MultiAgentSpec& spec() const override { return inner_->spec(); }
  [[nodiscard]] int size() const override { return inner_->size(); }
  void reset(std::span<const std::uint64_t> seeds, std::span<const AgentArrays> out) override {
    inner_->reset(seeds, out);
  }
  void step(std::span<const EnvActions> actions, std::span<const AgentArrays> out) override {
    if (++steps_ == 20) std::this_thread::sleep_for(kLateStep);
    inner_->step(actions, out);
  }
  [[nodiscard]] bool can_save() const override { return false; }
  [[nodiscard]] std::vector<std::byte> save() const override { return {}; }
  void load(std::span<const std::byte> /*state*/, std::span<const AgentArrays> /*out*/) override {}

 private:
  const std::unique_ptr<MultiAgentGroup> inner_;
  int steps_ = 0;
};

TEST(PpoStallTest, SoDoesOneOfSeveralAgents) {
  PpoSetup setup;
  setup.shards = 2;
  setup.devices.assign(2, c10::Device(c10::kCPU));
  setup.ppo.num_envs = 2 * kEnvsOfGroup;
  setup.ppo.rollout_steps = 16;
  setup.ppo.minibatches = 1;
  setup.ppo.stall_timeout = kStepLimit.count();
  SeveralAgents& agents = setup.agents.emplace();
  agents.make_envs = [made = -1](int count) mutable -> std::unique_ptr<MultiAgentGroup> {
    std::unique_ptr<MultiAgentGroup> envs = EnvRegistry::native().find_multi_agent("KuhnPoker-v0")->make(count);
    if (made++ != 1) return envs;
    return std::make_unique<LateGroup>(std::move(envs));
  };
  agents.make_policy = [](const MappedPolicy& policy, at::Generator generator) {
    return std::make_shared<MlpPolicy>(policy.spec, MlpPolicyOptions{.hidden = {8}}, std::move(generator));
  };
  PpoRun run(std::move(setup));
  try {
    for (int i = 0; i < 3; ++i) (void)run.update();
    FAIL();
  } catch (const DeadlineExceeded& error) {
    EXPECT_THAT(error.what(), HasSubstr("in one step: env group 1 (KuhnPoker-v0, environments 3 to 5)"));
  }
}

TEST(PpoStallTest, StepsWithinTheLimitAreLeftAlone) {
  PpoSetup setup = setup_with_late_step(2, 1, 5);
  setup.ppo.stall_timeout = 30;
  PpoRun run(std::move(setup));
  for (int i = 0; i < 3; ++i) (void)run.update();
  EXPECT_EQ(run.updates(), 3);
}

TEST(PpoStallTest, ALimitOfNothingIsRefused) {
  PpoSetup setup = setup_with_late_step(2, 0, 0);
  setup.ppo.stall_timeout = 0;
  EXPECT_THROW(PpoRun(std::move(setup)), ConfigError);
}

}  // namespace
}  // namespace tandem::rl
