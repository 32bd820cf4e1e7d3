#include "tandem/pipeline/straggler_rule.h"

#include <gtest/gtest.h>

namespace tandem::pipeline {
namespace {

using namespace std::chrono_literals;

constexpr int kSteps = 100;
const Clock::time_point kBegin{};

// A board of which `finished` of `units` have made all steps of round 3, and the others `steps` of them.
ProgressBoard board_of(int units, int finished, int steps) {
  ProgressBoard board(units);
  for (int unit = 0; unit < units; ++unit) {
    const bool is_done = unit < finished;
    board.post(unit, {.round = 3, .steps = is_done ? kSteps : steps, .finished = is_done});
  }
  return board;
}

StragglerRule rule_of(Stragglers policy, const ProgressBoard& board, std::optional<double> learn_seconds = 1.0) {
  StragglerRule rule({.policy = policy}, board, kSteps);
  rule.begin(3, learn_seconds, kBegin);
  return rule;
}

TEST(StragglerRuleTest, WaitAllMakesAllSteps) {
  const StragglerRule rule = rule_of(Stragglers::kWaitAll, board_of(8, 7, 99));
  EXPECT_FALSE(rule.ends(99, kBegin + 100s));
  EXPECT_TRUE(rule.ends(100, kBegin));
}

TEST(StragglerRuleTest, PreemptEndsOnceTheShareHasFinishedAndAQuarterIsMade) {
  for (int finished = 0; finished <= 10; ++finished) {
    const StragglerRule rule = rule_of(Stragglers::kPreempt, board_of(10, finished, 50));
    EXPECT_EQ(rule.ends(50, kBegin), finished >= 6) << finished;
    EXPECT_FALSE(rule.ends(24, kBegin));
    EXPECT_EQ(rule.ends(25, kBegin), finished >= 6) << finished;
  }
}

TEST(StragglerRuleTest, ThoseOfAnEarlierRoundHaveNotFinishedThisOneAndThoseOfALaterOneHave) {
  ProgressBoard board(2);
  StragglerRule rule({.policy = Stragglers::kPreempt, .sync_frac = 0.5}, board, kSteps);
  board.post(0, {.round = 3, .steps = kSteps, .finished = true});
  rule.begin(4, 1.0, kBegin);
  EXPECT_FALSE(rule.ends(50, kBegin));
  board.post(0, {.round = 5, .steps = 0});
  EXPECT_TRUE(rule.ends(50, kBegin));
}

// Seven of eight make their steps in a second; the other, four times slower, goes on alone at a quarter of their speed.
// After the second: 7.25 of 8 parts made in 1 s + learning, and 0.25 a second are to come.
TEST(StragglerRuleTest, TimeOptimalEndsWhereStepsASecondWouldFall) {
  const ProgressBoard board = board_of(8, 7, 25);
  for (const double learn_seconds : {0.1, 1.0, 10.0, 27.0}) {
    EXPECT_TRUE(rule_of(Stragglers::kTimeOptimal, board, learn_seconds).ends(25, kBegin + 1s)) << learn_seconds;
  }
  EXPECT_FALSE(rule_of(Stragglers::kTimeOptimal, board, 29.0).ends(25, kBegin + 1s));
  // While all make steps, going on is always worth it.
  EXPECT_FALSE(rule_of(Stragglers::kTimeOptimal, board_of(8, 0, 99), 0.1).ends(99, kBegin + 1s));
  EXPECT_FALSE(rule_of(Stragglers::kTimeOptimal, board).ends(24, kBegin + 1s));
}

TEST(StragglerRuleTest, TimeOptimalDoesAsPreemptBeforeLearningWasMeasured) {
  for (int finished = 0; finished <= 7; ++finished) {
    const StragglerRule rule = rule_of(Stragglers::kTimeOptimal, board_of(8, finished, 25), std::nullopt);
    EXPECT_EQ(rule.ends(50, kBegin + 1s), finished >= 5) << finished;
    EXPECT_FALSE(rule.ends(24, kBegin + 1s));
  }
}

}  // namespace
}  // namespace tandem::pipeline
