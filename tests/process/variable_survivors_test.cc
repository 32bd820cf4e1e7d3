// Trainings under sync_replicas and asynchronous, whose variables lie in the process of the first rank, and that
// process is killed again and again: they go on after the last update that was recorded, and all gradients are
// accounted for.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gradient_account.h"
#include "survivors.h"
#include "tandem/base/clock.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"

namespace tandem::process_test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGoesOn = "goes on after update";
constexpr std::int64_t kGradientsOfUpdate = 4;  // of each replica: two passes over two minibatches

// PPO that only a signal ends.
Recipe of_variables(const std::string& strategy) {
  // No update ends its passes early: all give equally many gradients.
  Recipe recipe = with_setting(with_steps(cartpole(), 1'000'000'000), "ppo.target_kl=none");
  recipe.arguments.insert(recipe.arguments.end(), {"--strategy", strategy});
  if (strategy == "asynchronous") return with_setting(recipe, "asynchronous.drop_staler=3");
  return with_setting(with_setting(recipe, "sync_replicas.replicas_to_aggregate=3"), "sync_replicas.average_decay=0.9");
}

// Whose process holds the variables: who was named first when the ranks met last.
int holder_in(const fs::path& folder) {
  const std::string log = log_of(folder), words = "the run goes on with rank(s) ";
  const std::size_t at = log.rfind(words);
  return at == std::string::npos ? 0 : std::stoi(log.substr(at + words.size()));
}

struct Times {
  double longest = 0, sum = 0;
  void add(double seconds) {
    longest = std::max(longest, seconds);
    sum += seconds;
  }
};

class VariableSurvivorsTest : public testing::TestWithParam<const char*> {
 public:
  explicit VariableSurvivorsTest(const std::string& on_death = "replace")
      : launcher_(with_survivors(of_variables(GetParam()), folder_, on_death)) {}

 protected:
  // At random instants, each in the 200 ms after the replacement of the one before has joined.
  void kill_each_holder(int kills, unsigned seed) {
    std::mt19937 random(seed);
    ASSERT_TRUE(reaches_update(launcher_, folder_, 5));
    for (int kill = 0; kill < kills; ++kill) {
      const auto instant = std::chrono::microseconds(std::uniform_int_distribution(0, 200'000)(random));
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
    std::cout << GetParam() << ": " << kills
              << " times the process of the variables was killed; the next update was made "
              << "after " << update_.longest << " s at most, " << update_.sum / kills << " s in the mean\n";
  }

  void kill_holder(int holder) {
    const int rounds = count_in(log_of(folder_), kGoesOn);
    const std::int64_t before = updates_in(folder_);
    const Clock::time_point start = Clock::now();
    ASSERT_TRUE(kill_rank(launcher_, holder));
    std::int64_t recorded = updates_in(folder_);
    if (count_in(log_of(folder_), kGoesOn) > rounds) recorded = before;  // these may be lines of the next one already
    ASSERT_TRUE(says(launcher_, folder_, kGoesOn, rounds + 1)) << launcher_.wait().err;
    EXPECT_GE(went_on_after(folder_), recorded) << "the global step went back";
    ASSERT_TRUE(reaches_update(launcher_, folder_, recorded + 1)) << launcher_.wait().err;
    update_.add(seconds_since(start));
  }

  void expect_whole(const ExpectedGradients& expected) {
    ASSERT_TRUE(reaches_update(launcher_, folder_, updates_in(folder_) + 50));  // of all ranks: the last has joined
    launcher_.signal(SIGTERM);
    const Ended ended = launcher_.wait();
    EXPECT_EQ(ended.exit_code, 130) << ended.how() << "\n" << ended.out << ended.err;
    expect_line_for_every_update(folder_);
    expect_steps_of_all_updates(folder_);
    ExpectedGradients its = expected;
    its.of_each = kGradientsOfUpdate * (summary_of(folder_).at("updates").as_int64() - went_on_after(folder_));
    expect_accounted_for(folder_, its, log_of(folder_));
  }

  [[nodiscard]] Child& launcher() { return launcher_; }
  [[nodiscard]] const fs::path& folder() const { return folder_; }

 private:
  const TemporaryFolder scratch_;
  const fs::path folder_ = scratch_ / "run";
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
  LastHolderTest() : VariableSurvivorsTest("continue") {}
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

class LongVariableSurvivorsTest : public VariableSurvivorsTest {};

TEST_P(LongVariableSurvivorsTest, TwentyKillsAtAnyInstantsNeverTakeTheGlobalStepBack) {
  kill_each_holder(20, 13);
  expect_whole({.replicas = 4});
}

INSTANTIATE_TEST_SUITE_P(LongStrategies, LongVariableSurvivorsTest, testing::Values("sync_replicas", "asynchronous"),
                         [](const auto& strategy) { return std::string(strategy.param); });

}  // namespace
}  // namespace tandem::process_test
