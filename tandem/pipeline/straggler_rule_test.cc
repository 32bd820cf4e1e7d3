#include "tandem/pipeline/straggler_rule.h"

#include <gtest/gtest.h>

#include <algorithm>

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
  StragglerRule rule = rule_of(Stragglers::kWaitAll, board_of(8, 7, 99));
  EXPECT_FALSE(rule.ends(99, kBegin + 100s));
  EXPECT_TRUE(rule.ends(100, kBegin));
}

TEST(StragglerRuleTest, PreemptEndsOnceTheShareHasFinishedAndAQuarterIsMade) {
  for (int finished = 0; finished <= 10; ++finished) {
    StragglerRule rule = rule_of(Stragglers::kPreempt, board_of(10, finished, 50));
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

// Six of eight have finished; unit 6 makes its steps as unit 7 does, one every 10 ms, but is seen only at some of them.
// After the 60th of its own unit 7 would end.
class TwoLeftTest : public ::testing::Test {
 protected:
  TwoLeftTest() { rule_.begin(3, 0.01, kBegin); }

  // Unit 7 has made `steps`, and `other` of unit 6 are on the board.
  bool ends(int steps, int other) {
    board_.post(6, {.round = 3, .steps = other});
    board_.post(7, {.round = 3, .steps = steps});
    return rule_.ends(steps, kBegin + steps * 10ms);
  }

 private:
  ProgressBoard board_ = board_of(8, 6, 0);
  StragglerRule rule_{{.policy = Stragglers::kTimeOptimal}, board_, kSteps};
};

TEST_F(TwoLeftTest, TimeOptimalGoesOnWhileAnotherIsStuckInAStep) {
  for (int steps = 1; steps < 60; ++steps) (void)ends(steps, std::min(steps, 57));
  EXPECT_FALSE(ends(60, 57));
  EXPECT_FALSE(ends(61, 57));
  EXPECT_TRUE(ends(62, 58));
}

TEST_F(TwoLeftTest, TimeOptimalTakesNoUnitForStuckThatStepsAsItDid) {
  for (int steps = 1; steps < 60; ++steps) (void)ends(steps, steps / 8 * 8);  // news come every 80 ms
  EXPECT_TRUE(ends(60, 56));
}

TEST_F(TwoLeftTest, TimeOptimalGoesOnWhileAnotherHasYetToMakeItsLeast) {
  for (int steps = 1; steps < 60; ++steps) (void)ends(steps, (steps + 2) / 3);
  EXPECT_FALSE(ends(60, 20));
  EXPECT_TRUE(ends(75, 25));
}

TEST(StragglerRuleTest, TimeOptimalGoesOnWhileAnotherHasNotBegun) {
  ProgressBoard board = board_of(8, 6, 60);
  board.post(6, {.round = 2, .steps = kSteps, .finished = true});
  EXPECT_FALSE(rule_of(Stragglers::kTimeOptimal, board, 0.01).ends(60, kBegin + 600ms));
}

TEST(StragglerRuleTest, TimeOptimalDoesAsPreemptBeforeLearningWasMeasured) {
  for (int finished = 0; finished <= 7; ++finished) {
    StragglerRule rule = rule_of(Stragglers::kTimeOptimal, board_of(8, finished, 25), std::nullopt);
    EXPECT_EQ(rule.ends(50, kBegin + 1s), finished >= 5) << finished;
    EXPECT_FALSE(rule.ends(24, kBegin + 1s));
  }
}

}  // namespace
}  // namespace tandem::pipeline
