// Environments with goals in Python: what their functions say of goals that took the place of others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/testing/message_of.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/goal_rewards.h"
#include "tandem/rl/env/isolated/isolated_envs.h"
#include "tandem/rl/env/python/python_envs.h"

namespace tandem::rl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A group of two, after a reset; the first one's worker answers.
std::unique_ptr<EnvGroup> group_of(const std::string& name, EnvOptionTexts options = {}) {
  const std::string id = "gymnasium:goal_env:" + name;
  EnvRegistry known;
  for (EnvKind& kind : python_kinds({})) known.add_kind(std::move(kind));
  options.emplace_back(kInterpreterOption, TEST_PYTHON);
  known.set_options(id, options);
  std::unique_ptr<EnvGroup> group = known.make(id, 2);
  const EnvBuffers buffers(*group);
  group->reset(std::vector<std::uint64_t>{1, 2}, buffers.arrays());
  return group;
}

struct Worth {
  std::vector<double> reward = std::vector<double>(3);
  std::vector<std::uint8_t> terminated = {0, 1, 0};
};
// The first goal is reached, and the others are not.
Worth worth(EnvGroup& group) {
  const std::vector<double> achieved{1, 2, 3}, desired{1.05, 1, 5};
  Worth its;
  goal_rewards_of(group)->reward_goals({.rows = 3,
                                        .achieved = reinterpret_cast<const std::byte*>(achieved.data()),
                                        .desired = reinterpret_cast<const std::byte*>(desired.data()),
                                        .reward = its.reward.data(),
                                        .terminated = its.terminated.data()});
  return its;
}

TEST(PythonGoalsTest, AreWorthWhatTheEnvironmentSays) {
  const auto group = group_of("Line-v0");
  const Worth its = worth(*group);
  EXPECT_THAT(its.reward, ElementsAre(0, -1, -1));
  EXPECT_THAT(its.terminated, ElementsAre(0, 1, 0)) << "without compute_terminated() ends stay";
}

TEST(PythonGoalsTest, EndWhereTheEnvironmentSaysSo) {
  EXPECT_THAT(worth(*group_of("Ended-v0")).terminated, ElementsAre(1, 0, 0));
}

TEST(PythonGoalsTest, AWrapperOfPythonsAnswersBeforeWhatItWraps) {
  const auto group = group_of("Line-v0", {{"python.wrappers", "goal_env:Twice"}});
  EXPECT_THAT(worth(*group).reward, ElementsAre(0, -2, -2));
}

TEST(PythonGoalsTest, EnvironmentsWithoutThemAreAskedForNone) {
  const std::string id = "gymnasium:CartPole-v1";
  EnvRegistry known;
  for (EnvKind& kind : python_kinds({})) known.add_kind(std::move(kind));
  known.set_options(id, {{kInterpreterOption, TEST_PYTHON}});
  EXPECT_EQ(goal_rewards_of(*known.make(id, 1)), nullptr);
}

// The worker is started again as often as there are restarts, and each time asked once more.
TEST(PythonGoalsTest, AWorkerThatIsLostByThemIsARestart) {
  const std::string id = "gymnasium:goal_env:Exits-v0";
  EnvRegistry known;
  for (EnvKind& kind : python_kinds({})) known.add_kind(std::move(kind));
  const EnvOptionTexts options{{kInterpreterOption, TEST_PYTHON}};
  known.set_options(id, options);
  const auto budget = std::make_shared<RestartBudget>(1);
  IsolatedEnvs group(known.spec(id), 2, python_isolation({}, id, options), budget);
  const EnvBuffers buffers(group);
  group.reset(std::vector<std::uint64_t>{1, 2}, buffers.arrays());
  EXPECT_THAT(message_of<EnvError>([&] { (void)worth(group); }),
              AllOf(HasSubstr("while it rewarded goals"), HasSubstr("which is all that env_restarts allows")));
  EXPECT_EQ(budget->used(), 1);
}

TEST(PythonGoalsTest, FunctionsThatDoNotTakeManyGoalsAreSaid) {
  EXPECT_THAT(message_of<EnvError>([] { (void)worth(*group_of("Told-v2")); }),
              AllOf(HasSubstr("compute_reward()"), HasSubstr("TypeError")));
  EXPECT_THAT(message_of<EnvError>([] { (void)worth(*group_of("Single-v0")); }),
              HasSubstr("compute_reward() of 3 goals at once, as arrays of shape [3, 1], gives rewards of shape []"));
}

}  // namespace
}  // namespace tandem::rl
