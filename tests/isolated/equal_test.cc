// Groups in processes of their own show what the same groups show in this one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/rl/env/goal_rewards.h"
#include "tandem/rl/env/restarting_envs.h"
#include "tests/isolated/both.h"

namespace tandem::rl::isolated_test {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

void expect_equal(const EnvBuffers& one, const EnvBuffers& other, const Spec& spec, int step) {
  SCOPED_TRACE(concat(spec.id, ", step ", step));
  ASSERT_THAT(one.reward(), ElementsAreArray(other.reward()));
  ASSERT_THAT(one.terminated(), ElementsAreArray(other.terminated()));
  ASSERT_THAT(one.truncated(), ElementsAreArray(other.truncated()));
  ASSERT_THAT(one.action_mask(), ElementsAreArray(other.action_mask()));
  if (!spec.metrics.empty()) {
    // By their bits, since those of an environment that failed are not known (NaN).
    const std::size_t bytes = one.rows() * spec.metrics.size() * sizeof(double);
    ASSERT_EQ(std::memcmp(one.arrays().metrics, other.arrays().metrics, bytes), 0);
  }
  for (std::size_t l = 0; l < spec.observation.size(); ++l) {
    const std::size_t bytes = spec.observation[l].bytes() * one.rows();
    ASSERT_EQ(std::memcmp(one.arrays().observation[l], other.arrays().observation[l], bytes), 0);
    ASSERT_EQ(std::memcmp(one.arrays().final_observation[l], other.arrays().final_observation[l], bytes), 0);
  }
}

void expect_same_steps(Stepped& one, Stepped& other, int steps) {
  for (int step = 1; step <= steps; ++step) {
    one.step();
    other.step();
    expect_equal(one.buffers(), other.buffers(), one.group().spec(), step);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

const std::vector<Task>& tasks() {
  static const std::vector<Task> all{{"CartPole-v1"},
                                     {"MaskedCartPole-v1"},
                                     {"Pendulum-v1"},
                                     {"RepeatPrevious-v0"},
                                     {"BitFlipping-v0", {}, {{"bits", "3"}}},
                                     {"Coin-v0", {GOOD_PLUGIN}},
                                     {"Troubled-v0", {TROUBLED_PLUGIN}, {{"at", "linear(1, 1000)"}}}};
  return all;
}

TEST(IsolatedEnvsTest, NumbersAndStatesAreThoseOfTheGroupInThisProcess) {
  for (const Task& task : tasks()) {
    Stepped inside(task.registry().make(task.env, 5)), isolated_one(isolated(task, 5));
    inside.group().set_progress(0.3);
    isolated_one.group().set_progress(0.3);
    inside.reset();
    isolated_one.reset();
    expect_equal(inside.buffers(), isolated_one.buffers(), inside.group().spec(), 0);
    expect_same_steps(inside, isolated_one, 30);
    inside.group().set_progress(0.6);
    isolated_one.group().set_progress(0.6);
    expect_same_steps(inside, isolated_one, 120);
    ASSERT_EQ(inside.group().can_save(), isolated_one.group().can_save());
    if (!inside.group().can_save()) continue;
    const std::vector<std::byte> state = inside.group().save();
    ASSERT_EQ(state, isolated_one.group().save()) << task.env;
    // A new process goes on where that one was.
    Stepped later(isolated(task, 5)), inside_later(task.registry().make(task.env, 5));
    later.load(state);
    inside_later.load(state);
    expect_equal(inside_later.buffers(), later.buffers(), inside.group().spec(), 0);
    expect_same_steps(inside_later, later, 40);
  }
}

TEST(IsolatedEnvsTest, EnvironmentsThatThrowAreMadeAnewAsInThisProcess) {
  const Task task{"Troubled-v0", {TROUBLED_PLUGIN}, {{"fault", "fragile"}, {"at", "10"}}};
  const auto budget_inside = std::make_shared<RestartBudget>(9), budget = std::make_shared<RestartBudget>(9);
  const auto make = [known = task.registry(), &task](int count) { return known.make(task.env, count); };
  Stepped inside(std::make_unique<RestartingEnvs>(make, 4, budget_inside)), outside(isolated(task, 4, budget));
  inside.reset();
  outside.reset();
  expect_same_steps(inside, outside, 25);
  EXPECT_EQ(budget->used(), 8);
  EXPECT_THAT(budget->take_remarks(), ElementsAreArray(budget_inside->take_remarks()));
  EXPECT_EQ(inside.group().save(), outside.group().save());
  const auto until_none_is_left = [](Stepped& group) {
    return message_of<EnvError>([&group] {
      for (int step = 0; step < 10; ++step) group.step();
    });
  };
  const std::string message = until_none_is_left(outside);
  EXPECT_EQ(message, until_none_is_left(inside));
  EXPECT_THAT(message, HasSubstr("which is all that env_restarts allows"));
}

// Rewards and ends of two steps: one that has reached its goal, one that has not.
std::string told_of_goals(EnvGroup& group) {
  const std::vector<float> achieved{1, 0, 1, 0}, desired{1, 0, 1, 1};
  std::vector<double> reward(2);
  std::vector<std::uint8_t> terminated{0, 1};
  goal_rewards_of(group)->reward_goals({.rows = 2,
                                        .achieved = reinterpret_cast<const std::byte*>(achieved.data()),
                                        .desired = reinterpret_cast<const std::byte*>(desired.data()),
                                        .reward = reward.data(),
                                        .terminated = terminated.data()});
  return concat(joined(reward), "; ", joined(std::vector<int>(terminated.begin(), terminated.end())));
}

TEST(IsolatedEnvsTest, GoalsAreWorthWhatTheyAreInThisProcess) {
  const Task task{"BitFlipping-v0", {}, {{"bits", "2"}}};
  for (const auto& budget : {std::shared_ptr<RestartBudget>(), std::make_shared<RestartBudget>(2)}) {
    Stepped group(isolated(task, 3, budget));
    group.reset();
    group.step();
    EXPECT_EQ(told_of_goals(group.group()), "0, -1; 1, 0");
    group.step();
  }
  Stepped without(isolated({"CartPole-v1"}, 1));
  EXPECT_EQ(goal_rewards_of(without.group()), nullptr);
}

TEST(IsolatedEnvsTest, AStateThatDoesNotFitIsACheckpointErrorOfTheWorker) {
  const Task task{"CartPole-v1"};
  Stepped group(isolated(task, 2));
  group.reset();
  const std::vector<std::byte> state(100'000, std::byte{7});
  const std::string message = message_of<CheckpointError>([&] { group.load(state); });
  EXPECT_THAT(message, HasSubstr("cannot be used"));
  group.reset();
  group.step();
}

TEST(IsolatedEnvsTest, AFaultOfTheTaskIsAConfigError) {
  Task task{"CartPole-v1"};
  const Spec spec = task.registry().spec(task.env);
  IsolationOptions options = task.isolation();
  options.task.env = "CartPole-v7";
  IsolatedEnvs group(spec, 2, options, nullptr);
  EXPECT_THAT(message_of<ConfigError>([&] { (void)group.can_save(); }), HasSubstr("did you mean"));
  options.task.env = "Pendulum-v1";
  IsolatedEnvs other(spec, 2, options, nullptr);
  EXPECT_THAT(message_of<ConfigError>([&] { (void)other.can_save(); }), HasSubstr("another spec in its worker"));
}

TEST(IsolatedEnvsTest, AProgramThatIsNoWorkerIsSaid) {
  const Task task{"CartPole-v1"};
  IsolationOptions options = task.isolation();
  options.command = {"/bin/true"};
  IsolatedEnvs silent(task.registry().spec(task.env), 2, options, nullptr);
  EXPECT_THAT(message_of<EnvError>([&] { (void)silent.can_save(); }),
              ::testing::AllOf(HasSubstr("ended with exit code 0 while"), HasSubstr("run_program()")));
  options.command = {"/nowhere/worker"};
  IsolatedEnvs missing(task.registry().spec(task.env), 2, options, nullptr);
  EXPECT_THAT(message_of<ConfigError>([&] { (void)missing.can_save(); }), HasSubstr("No such file"));
}

}  // namespace
}  // namespace tandem::rl::isolated_test
