#include "tandem/rl/rollout/decision_log.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::rl {
namespace {

using ::testing::ElementsAre;

const Spec kSeenByOne{.id = "One-v0", .observation = {{.shape = {1}}}, .action = Discrete{2}};

// One agent in one environment, whose decisions have a value each.
struct OneLog {
  void decide(float value) {
    now.acts[0] = 1;
    now.value.data_ptr<float>()[0] = value;
    log.decide(now);
    now.acts[0] = 0;
  }
  void wait(double reward) {
    log.decide(now);
    now.reward[0] = reward;
    log.earn(now, nullptr);
  }
  std::vector<float> advantages(float next_value) {
    Fragment& fragment = log.end(now, &next_value, 1, 1);
    const at::Tensor made = fragment.made(fragment.advantage).flatten();
    return {made.const_data_ptr<float>(), made.const_data_ptr<float>() + made.numel()};
  }
  AgentRows now{kSeenByOne, 1, 1};
  DecisionLog log{kSeenByOne, 8, 1, 1};
};

// It decided twice, earned 0.5 in between, and waits for the outcome: the value that its second decision was made with
// follows the first, and not that of what it sees while it waits.
TEST(DecisionLogTest, AnOpenDecisionsValueFollowsTheOneBefore) {
  OneLog one;
  one.log.begin();
  one.decide(1);
  one.wait(0.5);
  one.decide(4);
  one.wait(0);
  EXPECT_THAT(one.advantages(100), ElementsAre(0.5F + 4 - 1));
}

// Nothing stands between the decision and what it sees next: that one's value follows, and the decision is complete.
TEST(DecisionLogTest, WhoActsNextHasTheValueOfWhatItSees) {
  OneLog one;
  one.log.begin();
  one.decide(1);
  one.wait(0.5);
  one.now.acts[0] = 1;
  EXPECT_THAT(one.advantages(100), ElementsAre(0.5F + 100 - 1));
  one.log.begin();
  one.now.acts[0] = 0;
  EXPECT_THAT(one.advantages(100), ElementsAre()) << "it is not there twice";
}

// For V-trace: the open decision itself, as it was seen, is what follows the one before; in the next fragment it is a
// decision of its own.
TEST(DecisionLogTest, AnOpenDecisionFollowsAsItWasSeen) {
  OneLog one;
  DecisionFragment fragment = one.log.make_fragment();
  const auto see = [&](float what) { one.now.observation[0].fill_(what); };
  const auto seen_at = [&](std::int64_t row) { return fragment.decisions.observation[0].flatten()[row].item<float>(); };
  one.log.begin(fragment);
  see(1);
  one.decide(0);
  one.wait(0.5);
  see(2);
  one.decide(0);
  one.wait(0.25);
  see(3);  // while it waits
  one.log.end_with_next(one.now);
  EXPECT_EQ(fragment.decisions.steps, 1);
  EXPECT_EQ(one.log.completed(), 1);
  EXPECT_EQ(fragment.beyond, 1);
  EXPECT_EQ(fragment.next[0], 1);
  EXPECT_EQ(seen_at(0), 1);
  EXPECT_EQ(seen_at(1), 2);
  one.log.begin(fragment);
  one.wait(0.25);
  one.now.acts[0] = 1;
  one.log.end_with_next(one.now);
  EXPECT_EQ(fragment.decisions.steps, 1);
  EXPECT_EQ(seen_at(0), 2);
  EXPECT_EQ(seen_at(1), 3) << "it acts next";
  EXPECT_EQ(fragment.decisions.reward.flatten()[0].item<float>(), 0.5F);
}

TEST(DecisionLogTest, WhatIsEarnedWhileOthersActIsTheDecisions) {
  OneLog one;
  one.log.begin();
  one.decide(1);
  for (int i = 0; i < 3; ++i) one.wait(2);
  one.now.acts[0] = 1;
  EXPECT_THAT(one.advantages(0), ElementsAre(3 * 2 - 1));
}

}  // namespace
}  // namespace tandem::rl
