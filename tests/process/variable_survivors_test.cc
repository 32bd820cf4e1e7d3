// Trainings under sync_replicas and asynchronous, whose variables lie in the process of the first rank, and that
// process is killed again and again, or a process is stopped: they go on after the last update that was recorded, and
// all gradients are accounted for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "faults.h"
#include "gradient_account.h"
#include "tandem/base/clock.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"

namespace tandem::process_test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kGradientsOfUpdate = 4;  // of each replica: two passes over two minibatches

// PPO that only a signal ends.
Recipe of_variables(const std::string& strategy) {
  // No update ends its passes early: all give equally many gradients.
  Recipe recipe = with_setting(with_steps(cartpole(), 1'000'000'000), "ppo.target_kl=none");
  recipe.arguments.insert(recipe.arguments.end(), {"--strategy", strategy});
  if (strategy == "asynchronous") return with_setting(recipe, "asynchronous.drop_staler=3");
  return with_setting(with_setting(recipe, "sync_replicas.replicas_to_aggregate=3"), "sync_replicas.average_decay=0.9");
}

// The same, where a replica nearly always waits for the variables, and all of them for the slowest.
constexpr std::int64_t kWaitsOfUpdate = 64;
Recipe that_waits_for_variables(const std::string& strategy) {
  Recipe recipe{"CartPole",
                {"--env", "CartPole-v1", "--seed", "11", "--shards", "4", "--num-envs", "8", "--rollout-steps", "32",
                 "--epochs", "1", "--minibatches", std::to_string(kWaitsOfUpdate), "--set", "policy.hidden=16,16"},
                1'000'000'000,
                256};
  recipe.arguments.insert(recipe.arguments.end(), {"--strategy", strategy});
  recipe = with_setting(recipe, "ppo.target_kl=none");
  return strategy == "asynchronous" ? with_setting(recipe, "asynchronous.wait_for_slower=1") : recipe;
}

// Whose process holds the variables: who was named first when the ranks met last.
int holder_in(const fs::path& folder) {
  const std::vector<int> members = newest_members(folder);
  return members.empty() ? 0 : members.front();
}

class VariableSurvivorsTest : public testing::TestWithParam<const char*> {
 public:
  VariableSurvivorsTest() : VariableSurvivorsTest("replace", of_variables(GetParam()), kGradientsOfUpdate) {}

 protected:
  // At random instants, each in the 200 ms after the replacement of the one before has joined.
  void kill_each_holder(int kills, unsigned seed) {
    Dice dice(seed);
    ASSERT_TRUE(reaches_update(launcher_, folder_, 5));
    for (int kill = 0; kill < kills; ++kill) {
      const auto instant = dice.within(std::chrono::milliseconds(200));
      SCOPED_TRACE(concat("kill ", kill, " of seed ", seed, " after ", instant.count(), " us"));
      std::this_thread::sleep_for(instant);
      const int holder = holder_in(folder_);
      ASSERT_NO_FATAL_FAILURE(kill_holder(holder));
      const int started = ++restarts_.at(static_cast<std::size_t>(holder));
      ASSERT_TRUE(says(launcher_, folder_, concat("rank ", holder, " has joined, started again ", started, " time"), 1))
          << launcher_.wait().err;
      // That line comes before the round's last one, and before the replacement has begun.
      const std::size_t joined = log_of(folder_).rfind("has joined");
      ASSERT_TRUE(eventually([&] { return log_of(folder_).find(kGoesOn, joined) != std::string::npos; }));
      ASSERT_TRUE(reaches_update(launcher_, folder_, updates_in(folder_) + 1)) << launcher_.wait().err;
    }
    update_.report(concat("to the next update under ", GetParam()));
  }

  void kill_holder(int holder) {
    const std::optional<Loss> loss = lose_rank(launcher_, folder_, holder, SIGKILL);
    ASSERT_TRUE(loss) << launcher_.wait().err;
    EXPECT_GE(went_on_after(folder_), loss->recorded) << "the global step went back";
    EXPECT_LE(loss->seconds(), to_go_on_within());
    update_.add(loss->seconds());
  }

  void expect_whole(const ExpectedGradients& expected) {
    ASSERT_TRUE(reaches_update(launcher_, folder_, updates_in(folder_) + 50));  // of all ranks: the last has joined
    launcher_.signal(SIGTERM);
    const Ended ended = launcher_.wait();
    EXPECT_EQ(ended.exit_code, 130) << ended.how() << "\n" << ended.out << ended.err;
    expect_line_for_every_update(folder_);
    expect_steps_of_all_updates(folder_);
    ExpectedGradients its = expected;
    its.of_each = gradients_of_update_ * (summary_of(folder_).at("updates").as_int64() - went_on_after(folder_));
    expect_accounted_for(folder_, its, log_of(folder_));
  }

  /// `gradients_of_update`: of each replica.
  VariableSurvivorsTest(const std::string& on_death, const Recipe& recipe, std::int64_t gradients_of_update,
                        const std::vector<std::string>& more = {})
      : gradients_of_update_(gradients_of_update), launcher_(with_survivors(recipe, folder_, on_death, more)) {}

  [[nodiscard]] Child& launcher() { return launcher_; }
  [[nodiscard]] const fs::path& folder() const { return folder_; }

 private:
  const TemporaryFolder scratch_;
  const fs::path folder_ = scratch_ / "run";
  const std::int64_t gradients_of_update_;
  Child launcher_;
  std::array<int, kSurvivingRanks> restarts_{};
  Times update_;
};

TEST_P(VariableSurvivorsTest, TheyOutliveTheProcessThatHoldsThem) {
  kill_each_holder(3, 11);
  expect_whole({.replicas = 4});
}

INSTANTIATE_TEST_SUITE_P(Strategies, VariableSurvivorsTest, testing::Values("sync_replicas", "asynchronous"),
                         [](const auto& strategy) { return std::string(strategy.param); });

class LastHolderTest : public VariableSurvivorsTest {
 public:
  LastHolderTest() : VariableSurvivorsTest("continue", of_variables(GetParam()), kGradientsOfUpdate) {}
};

// Under sync_replicas it gives all three gradients of a step by itself.
TEST_P(LastHolderTest, OneThatIsLeftGoesOnAlone) {
  ASSERT_TRUE(reaches_update(launcher(), folder(), 5));
  for (int kill = 0; kill < 3; ++kill) {
    SCOPED_TRACE(concat("kill ", kill));
    ASSERT_NO_FATAL_FAILURE(kill_holder(holder_in(folder())));
  }
  expect_whole({.replicas = 1, .most_in_flight = GetParam() == std::string_view("sync_replicas") ? 2 : 0});
}

INSTANTIATE_TEST_SUITE_P(Strategies, LastHolderTest, testing::Values("sync_replicas", "asynchronous"),
                         [](const auto& strategy) { return std::string(strategy.param); });

class SilentRankTest : public VariableSurvivorsTest {
 public:
  SilentRankTest()
      : VariableSurvivorsTest("continue", that_waits_for_variables(GetParam()), kWaitsOfUpdate,
                              {"--deadline", std::to_string(kDeadline)}) {}

 protected:
  // Wherever it is when the signal comes. A wait that only its own limit of five minutes would end is none.
  void expect_survived(int victim, int signal, int deadline) {
    ASSERT_TRUE(reaches_update(launcher(), folder(), 5));
    const Clock::time_point start = Clock::now();
    ASSERT_TRUE(signal_rank(launcher(), victim, signal));
    ASSERT_TRUE(says(launcher(), folder(), kGoesOn, 1)) << launcher().wait().err;
    EXPECT_LT(seconds_since(start), deadline + 20) << log_of(folder());
    EXPECT_THAT(log_of(folder()), testing::HasSubstr(concat("rank ", victim, " is lost (")));
    expect_whole({.replicas = 3});
  }

  static constexpr int kDeadline = 5;
};

TEST_P(SilentRankTest, TheStoppedHolderIsGivenUpAtTheDeadline) { expect_survived(0, SIGSTOP, kDeadline); }
TEST_P(SilentRankTest, AStoppedFollowerIsGivenUpAtTheDeadline) { expect_survived(2, SIGSTOP, kDeadline); }
TEST_P(SilentRankTest, AKilledFollowerIsGivenUpAtOnce) { expect_survived(2, SIGKILL, 0); }

INSTANTIATE_TEST_SUITE_P(Strategies, SilentRankTest, testing::Values("sync_replicas", "asynchronous"),
                         [](const auto& strategy) { return std::string(strategy.param); });

class LongVariableSurvivorsTest : public VariableSurvivorsTest {};

TEST_P(LongVariableSurvivorsTest, TwentyKillsAtAnyInstantsNeverTakeTheGlobalStepBack) {
  kill_each_holder(20, 13);
  expect_whole({.replicas = 4});
}

INSTANTIATE_TEST_SUITE_P(LongStrategies, LongVariableSurvivorsTest, testing::Values("sync_replicas", "asynchronous"),
                         [](const auto& strategy) { return std::string(strategy.param); });

}  // namespace
}  // namespace tandem::process_test
