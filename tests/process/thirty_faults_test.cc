// Thirty faults of one kind, of any ranks at any instants of a DD-PPO training: with survivors it goes on, with
// restarts from the last checkpoint, and ends with the bits of a run that nobody disturbed. The seeds are fixed.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include "faults.h"
#include "tandem/base/clock.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"

namespace tandem::process_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr int kFaults = 30;

// Faults that cost a rank each, which is replaced. CartPole is solved long before the last one: the steps are so many
// that all find a training to disturb.
void expect_to_survive(int signal, double deadline, unsigned seed) {
  Dice dice(seed);
  const TemporaryFolder scratch;
  const fs::path folder = scratch / "run";
  const Recipe recipe = solving_dd_ppo(2'000'000);
  Child launcher(with_survivors(recipe, folder, "replace", {"--deadline", concat(deadline)}));
  ASSERT_TRUE(reaches_update(launcher, folder, 5));
  Times to_go_on, to_join;
  for (int fault = 1; fault <= kFaults; ++fault) {
    const auto instant = dice.within(200ms);
    const int victim = dice.below(kSurvivingRanks);
    SCOPED_TRACE(concat("fault ", fault, " of seed ", seed, ": rank ", victim, " after ", instant.count(), " us"));
    std::this_thread::sleep_for(instant);
    ASSERT_TRUE(launcher.is_running()) << "it ended before all faults; give it more steps";
    const std::optional<Loss> loss = lose_rank(launcher, folder, victim, signal);
    ASSERT_TRUE(loss) << log_of(folder);
    to_go_on.add(loss->seconds());
    // One that is only stopped is killed, and replaced, when the others have gone on.
    const std::optional<double> joined =
        join(launcher, folder, fault, signal == SIGKILL ? loss->signalled : loss->went_on);
    ASSERT_TRUE(joined) << log_of(folder);
    to_join.add(*joined);
  }
  to_go_on.report("to go on");
  to_join.report("to join");
  EXPECT_LE(to_go_on.longest(), (signal == SIGKILL ? 0 : deadline) + to_go_on_within());
  EXPECT_LE(to_join.longest(), to_join_within());
  const Ended ended = launcher.wait();
  expect_complete(ended, folder, undisturbed_state(recipe), kSurvivingRanks);
  EXPECT_FALSE(summary_of(folder).at("solved_at_env_steps").is_null());
}

TEST(LongThirtyFaultsTest, KillsAreSurvivedAndCartPoleIsSolved) { expect_to_survive(SIGKILL, 30, 5); }

TEST(LongThirtyFaultsTest, StopsThatLastAreSurvivedAndCartPoleIsSolved) { expect_to_survive(SIGSTOP, 2, 6); }

// With survivors and without, nobody is lost.
TEST(LongThirtyFaultsTest, StopsThatEndBeforeTheDeadlineChangeNoBit) {
  constexpr unsigned kSeed = 8;
  const Recipe recipe = small_dd_ppo(1'500'000);
  const std::string state = undisturbed_state(recipe);
  for (const char* survivors : {"end", "take_over"}) {
    Dice dice(kSeed);
    const TemporaryFolder scratch;
    const fs::path folder = scratch / "run";
    Command command = training(recipe, folder);
    command.arguments.insert(command.arguments.end(), {"--survivors", survivors});
    Child launcher(as_ranks(kSurvivingRanks, command, {"--on-death", "continue"}));
    ASSERT_TRUE(reaches_update(launcher, folder, 20));
    for (int fault = 1; fault <= kFaults; ++fault) {
      const auto instant = dice.within(50ms), length = dice.within(1500ms);
      const int victim = dice.below(kSurvivingRanks);
      SCOPED_TRACE(concat("survivors ", survivors, ", stop ", fault, " of seed ", kSeed, ": rank ", victim, " after ",
                          instant.count(), " us for ", length.count(), " us"));
      std::this_thread::sleep_for(instant);
      ASSERT_TRUE(signal_rank(launcher, victim, SIGSTOP)) << "it ended before all stops; give it more steps";
      std::this_thread::sleep_for(length);
      ASSERT_TRUE(signal_rank(launcher, victim, SIGCONT));
    }
    expect_undisturbed(launcher.wait(), folder, state);
  }
}

// As torchrun does: a death ends all, and all are started again. Every other one dies while they start.
TEST(LongThirtyFaultsTest, KillsThatEndAllAreResumedWithTheSameBits) {
  constexpr unsigned kSeed = 9;
  Dice dice(kSeed);
  const Recipe recipe = small_dd_ppo(1'500'000);
  const int updates = static_cast<int>(recipe.steps / recipe.rows);
  const TemporaryFolder scratch;
  const fs::path folder = scratch / "run";
  Command command = training(recipe, folder);
  command.arguments.insert(command.arguments.end(), {"--resume", "auto"});
  const Command ranks = as_ranks(kSurvivingRanks, command, {"--on-death", "stop", "--grace", "1"});
  for (int fault = 1; fault <= kFaults; ++fault) {
    const auto instant = dice.within(fault % 2 == 0 ? 400ms : 20ms);
    const int victim = dice.below(kSurvivingRanks), progress = dice.below(updates / (2 * kFaults));
    SCOPED_TRACE(concat("kill ", fault, " of seed ", kSeed, ": rank ", victim, " after ", instant.count(), " us"));
    Child launcher(ranks);
    if (fault % 2 == 1) {
      ASSERT_TRUE(reaches_update(launcher, folder, fault * updates / (2 * kFaults) + progress)) << log_of(folder);
    }
    std::this_thread::sleep_for(instant);
    while (!kill_rank(launcher, victim))
      ASSERT_TRUE(launcher.is_running()) << "it ended before all kills; give it more steps\n" << log_of(folder);
    EXPECT_EQ(launcher.wait().exit_code, 128 + SIGKILL);
  }
  expect_complete(run(ranks), folder, undisturbed_state(recipe), kSurvivingRanks);
  EXPECT_EQ(summary_of(folder).at("resumed").as_string(), "exactly");
}

}  // namespace
}  // namespace tandem::process_test
