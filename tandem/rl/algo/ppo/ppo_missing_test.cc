// PPO runs of which ranks are missing, and whose groups do not all make steps until they are back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "tandem/base/testing/eventually.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/testing/wrapped_envs.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Lt;

constexpr int kEnvsOfEach = 2, kStepsOfGroup = 32;

PpoSetup of_groups(int groups) {
  PpoSetup setup;
  setup.seed = 3;
  setup.total_steps = 4096;
  setup.shards = groups;
  setup.ppo.num_envs = groups * kEnvsOfEach;
  setup.ppo.rollout_steps = kStepsOfGroup;
  setup.ppo.epochs = 2;
  setup.ppo.minibatches = 2;
  setup.normalizer = {.observations = true, .rewards = true};
  setup.make_envs = [](int count) { return EnvRegistry::native().make("CartPole-v1", count); };
  setup.make_policy = [](const Spec& spec, at::Generator generator) {
    return std::make_shared<MlpPolicy>(spec, MlpPolicyOptions{}, generator);
  };
  return setup;
}

// Four groups, of which one rank of two holds all.
PpoSetup with_half_missing() {
  PpoSetup setup = of_groups(4);
  setup.ranks = learner::Ranks().out_of(2);
  setup.while_missing = WhileMissing::kShareRests;
  return setup;
}

PpoSetup following_record(std::vector<std::vector<int>> recorded, int replicas) {
  PpoSetup setup = of_groups(4);
  setup.devices.assign(static_cast<std::size_t>(replicas), c10::Device(c10::kCPU));
  setup.stragglers.recorded = std::move(recorded);
  return setup;
}

std::string state_of_groups_after(PpoSetup setup, int updates) {
  PpoRun run(std::move(setup));
  for (int i = 0; i < updates; ++i) (void)run.update();
  return run.state_sha256();
}

TEST(PpoMissingTest, AnUpdateHasTheStepsOfThoseThatWorkAndAsManyMinibatches) {
  PpoRun run(with_half_missing());
  const RunReport report = run.update();
  EXPECT_EQ(run.env_steps(), 2 * kEnvsOfEach * kStepsOfGroup);
  EXPECT_THAT(report.rollouts->steps, ElementsAre(kStepsOfGroup, kStepsOfGroup, 0, 0));
  EXPECT_EQ(report.rollouts->rows_cut, 2 * kEnvsOfEach * kStepsOfGroup);
  EXPECT_EQ(report.rollouts->saved_seconds, 0);
  EXPECT_EQ(report.learning.minibatches, 4);
  EXPECT_EQ(report.ranks.front().env_steps, run.env_steps());
  EXPECT_THAT(run.why_numbers_differ(), HasSubstr("2 of 4 env groups make no steps"));
}

// So a mean is over the rows that there are: neither groups nor missing rows count.
TEST(PpoMissingTest, ItLearnsAsARunThatHasNoMoreGroups) {
  EXPECT_EQ(state_of_groups_after(with_half_missing(), 4), state_of_groups_after(of_groups(2), 4));
  EXPECT_NE(state_of_groups_after(of_groups(4), 4), state_of_groups_after(of_groups(2), 4));
}

TEST(PpoMissingTest, WithoutOneMissingItIsAnyRun) {
  PpoSetup whole = of_groups(4);
  whole.while_missing = WhileMissing::kShareRests;
  EXPECT_EQ(state_of_groups_after(whole, 3), state_of_groups_after(of_groups(4), 3));
  EXPECT_EQ(PpoRun(whole).why_numbers_differ(), "");
}

// In the second half all make steps again: environments that rested go on where they stood.
TEST(PpoMissingTest, GroupsGoOnWhenNobodyIsMissingAnyMoreAndTheRecordGivesTheSameBits) {
  PpoRun shrunk(with_half_missing());
  std::vector<std::vector<int>> recorded;
  for (int i = 0; i < 2; ++i) recorded.push_back(shrunk.update().rollouts->steps);
  const learner::StateParts parts = shrunk.save();
  PpoSetup setup = of_groups(4);
  setup.devices.assign(2, c10::Device(c10::kCPU));
  setup.while_missing = WhileMissing::kShareRests;
  PpoRun whole(std::move(setup));
  EXPECT_EQ(whole.load([&](const std::string& name) { return learner::part_of(parts, name); }),
            RolloutWorker::Resumed::kExactly);
  for (int i = 0; i < 2; ++i) recorded.push_back(whole.update().rollouts->steps);
  EXPECT_THAT(recorded.back(), ElementsAre(kStepsOfGroup, kStepsOfGroup, kStepsOfGroup, kStepsOfGroup));
  EXPECT_EQ(whole.env_steps(), (2 * 2 + 2 * 4) * kEnvsOfEach * kStepsOfGroup);
  for (const int replicas : {1, 2, 4})
    EXPECT_EQ(state_of_groups_after(following_record(recorded, replicas), 4), whole.state_sha256());
}

// Lets others know how many steps it made, and awaits something before the next.
class PacedEnvs final : public testing::WrappedEnvs {
 public:
  PacedEnvs(std::unique_ptr<EnvGroup> group, std::function<void()> before, std::atomic<int>& steps)
      : WrappedEnvs(std::move(group)), before_(std::move(before)), steps_(steps) {}
  void step(const EnvActions& actions, const EnvArrays& out) override {
    before_();
    WrappedEnvs::step(actions, out);
    ++steps_;
  }

 private:
  const std::function<void()> before_;
  std::atomic<int>& steps_;
};

// Two replicas, in each of which one of two groups works. The second makes half of its steps at most and waits then
// until the first has made all of its: that is half of those that work, and a quarter of all.
TEST(PpoMissingTest, WhoRestsIsNotWaitedForByARuleOfStragglers) {
  for (const auto policy : {pipeline::Stragglers::kPreempt, pipeline::Stragglers::kTimeOptimal}) {
    std::array<std::atomic<int>, 4> steps{};
    const auto await_first = [&] {
      if (steps[2] < kStepsOfGroup / 2) return;
      EXPECT_TRUE(eventually([&] { return steps[0] == kStepsOfGroup; }));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    };
    PpoSetup setup = with_half_missing();
    setup.devices.assign(2, c10::Device(c10::kCPU));
    setup.stragglers.options = {.policy = policy, .sync_frac = 0.5};
    int made = -1;  // the first call asks for the spec
    setup.make_envs = [&, native = setup.make_envs](int count) -> std::unique_ptr<EnvGroup> {
      const int group = made++;
      if (group < 0) return native(count);
      const std::function<void()> before = group == 2 ? std::function<void()>(await_first) : [] {};
      return std::make_unique<PacedEnvs>(native(count), before, steps.at(static_cast<std::size_t>(group)));
    };
    PpoRun run(std::move(setup));
    const RunReport report = run.update();
    EXPECT_THAT(report.rollouts->steps,
                ElementsAre(kStepsOfGroup, 0, AllOf(Ge(kStepsOfGroup / 4), Lt(kStepsOfGroup)), 0));
    EXPECT_THAT(run.why_numbers_differ(),
                AllOf(HasSubstr("which rollouts end early"), HasSubstr("2 of 4 env groups make no steps")));
  }
}

}  // namespace
}  // namespace tandem::rl
