// PPO of several agents whose env groups end rollouts early, follow a record or rest: what DD-PPO does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>

#include "tandem/base/testing/eventually.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {
namespace {

using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;

constexpr int kGamesOfGroup = 2, kStepsOfGames = 32;

PpoSetup groups_of_agents(const std::string& env, int groups, int replicas = 1) {
  PpoSetup setup;
  setup.seed = 3;
  setup.total_steps = 4096;
  setup.shards = groups;
  setup.devices.assign(static_cast<std::size_t>(replicas), c10::Device(c10::kCPU));
  setup.ppo.num_envs = groups * kGamesOfGroup;
  setup.ppo.rollout_steps = kStepsOfGames;
  setup.ppo.epochs = 2;
  setup.ppo.minibatches = 2;
  setup.normalizer.rewards = true;
  setup.agents =
      SeveralAgents{.policies = {},
                    .make_envs = [env](int count) { return EnvRegistry::native().find_multi_agent(env)->make(count); },
                    .make_policy =
                        [](const MappedPolicy& policy, at::Generator generator) {
                          return std::make_shared<MlpPolicy>(policy.spec, MlpPolicyOptions{.hidden = {16}}, generator);
                        }};
  return setup;
}

std::string state_of_agents(PpoSetup setup, int updates) {
  PpoRun run(std::move(setup));
  for (int i = 0; i < updates; ++i) (void)run.update();
  return run.state_sha256();
}

// Some groups end early, and some rest: their open decisions and their environments go on where they stood.
TEST(MultiAgentRolloutsTest, ARecordGivesTheSameBitsOnAnyTopologyAndAfterALoad) {
  const std::vector<std::vector<int>> record{{32, 9, 20, 1}, {5, 32, 0, 13}, {32, 0, 2, 32}, {17, 16, 15, 32}};
  for (const char* env : {"KuhnPoker-v0", "MultiAgentCartPole-v0"}) {
    const auto following = [&](int replicas) {
      PpoSetup setup = groups_of_agents(env, 4, replicas);
      setup.stragglers.recorded = record;
      return setup;
    };
    const std::string expected = state_of_agents(following(1), 4);
    for (const int replicas : {2, 4}) EXPECT_EQ(state_of_agents(following(replicas), 4), expected) << env;
    EXPECT_NE(state_of_agents(groups_of_agents(env, 4), 4), expected);
    PpoRun first(following(2)), second(following(4));
    for (int i = 0; i < 2; ++i) (void)first.update();
    EXPECT_EQ(first.env_steps(), kGamesOfGroup * (32 + 9 + 20 + 1 + 5 + 32 + 13));
    const learner::StateParts parts = first.save();
    EXPECT_EQ(second.load([&](const std::string& name) { return learner::part_of(parts, name); }),
              RolloutWorker::Resumed::kExactly);
    for (int i = 0; i < 2; ++i) (void)second.update();
    EXPECT_EQ(second.state_sha256(), expected) << env;
  }
}

PpoSetup half_of_the_agents_missing() {
  PpoSetup setup = groups_of_agents("KuhnPoker-v0", 4);
  setup.ranks = learner::Ranks().out_of(2);
  setup.while_missing = WhileMissing::kShareRests;
  return setup;
}

TEST(MultiAgentRolloutsTest, WhileRanksAreMissingItLearnsAsARunThatHasNoMoreGroups) {
  EXPECT_EQ(state_of_agents(half_of_the_agents_missing(), 4), state_of_agents(groups_of_agents("KuhnPoker-v0", 2), 4));
  PpoRun run(half_of_the_agents_missing());
  const RunReport report = run.update();
  EXPECT_THAT(report.rollouts->steps, ElementsAre(kStepsOfGames, kStepsOfGames, 0, 0));
  EXPECT_EQ(report.ranks.front().env_steps, run.env_steps());
  EXPECT_THAT(run.why_numbers_differ(), HasSubstr("2 of 4 env groups make no steps"));
}

// Stands before a group, which does not know.
class GatedAgents final : public MultiAgentGroup {
 public:
  GatedAgents(std::unique_ptr<MultiAgentGroup> group, std::function<void()> before, std::atomic<int>& steps)
      : group_(std::move(group)), before_(std::move(before)), steps_(steps) {}
  [[nodiscard]] const MultiAgentSpec& spec() const override { return group_->spec(); }
  [[nodiscard]] int size() const override { return group_->size(); }
  void reset(std::span<const std::uint64_t> seeds, std::span<const AgentArrays> out) override {
    group_->reset(seeds, out);
  }
  void step(std::span<const EnvActions> actions, std::span<const AgentArrays> out) override {
    before_();
    group_->step(actions, out);
    ++steps_;
  }
  [[nodiscard]] bool can_save() const override { return group_->can_save(); }
  [[nodiscard]] std::vector<std::byte> save() const override { return group_->save(); }
  void load(std::span<const std::byte> state, std::span<const AgentArrays> out) override { group_->load(state, out); }

 private:
  const std::unique_ptr<MultiAgentGroup> group_;
  const std::function<void()> before_;
  std::atomic<int>& steps_;
};

// Two replicas with a group each. The second makes half of its steps and waits then until the first has made all of
// its.
TEST(MultiAgentRolloutsTest, AGroupThatOthersWouldWaitForEndsEarlyAndTheRecordGivesTheSameBits) {
  std::atomic<int> first = 0, second = 0;  // steps of the update
  PpoSetup setup = groups_of_agents("MultiAgentCartPole-v0", 2, 2);
  setup.stragglers.options = {.policy = pipeline::Stragglers::kPreempt, .sync_frac = 0.5};
  const auto await_first = [&] {
    if (second < kStepsOfGames / 2) return;
    EXPECT_TRUE(eventually([&] { return first == kStepsOfGames; }));
  };
  int groups = -1;  // the first call asks for the spec
  setup.agents->make_envs = [&, native = setup.agents->make_envs](int count) -> std::unique_ptr<MultiAgentGroup> {
    const int group = groups++;
    if (group < 0) return native(count);
    const std::function<void()> before = group == 1 ? std::function<void()>(await_first) : [] {};
    return std::make_unique<GatedAgents>(native(count), before, group == 0 ? first : second);
  };
  PpoRun run(std::move(setup));
  std::vector<std::vector<int>> record;
  std::int64_t cut = 0;
  for (int i = 0; i < 4; ++i) {
    first = second = 0;
    const RunReport report = run.update();
    record.push_back(report.rollouts->steps);
    cut += report.rollouts->rows_cut;
  }
  EXPECT_GT(cut, 0);
  for (const std::vector<int>& steps : record) EXPECT_THAT(steps, ElementsAre(kStepsOfGames, Ge(kStepsOfGames / 4)));
  PpoSetup replay = groups_of_agents("MultiAgentCartPole-v0", 2);
  replay.stragglers.recorded = record;
  EXPECT_EQ(state_of_agents(std::move(replay), 4), run.state_sha256());
}

}  // namespace
}  // namespace tandem::rl
