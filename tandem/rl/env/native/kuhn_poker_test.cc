#include "tandem/rl/env/native/kuhn_poker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tandem/rl/env/testing/agent_buffers.h"
#include "tandem/rl/env/testing/kuhn_strategy.h"

namespace tandem::rl {
namespace {

using testing::AgentBuffers;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kuhn_strategy;
using testing::KuhnProbabilities;
using testing::KuhnStrategy;
using testing::step;

using enum KuhnPoker::Move;

KuhnPoker deal(std::array<std::size_t, 2> cards, std::vector<KuhnPoker::Move> moves = {}) {
  KuhnPoker game;
  game.set(cards, moves);
  return game;
}

// What player_0 wins when these moves end the deal.
double won(std::array<std::size_t, 2> cards, std::vector<KuhnPoker::Move> moves) {
  const std::int64_t last = moves.back();
  moves.pop_back();
  KuhnPoker game = deal(cards, moves);
  std::array<AgentAction, 2> actions{};
  actions[moves.size() % 2].discrete = {&last, 1};
  std::array<AgentOutcome, 2> outcomes{};
  game.step(actions, outcomes);
  EXPECT_TRUE(outcomes[0].terminated && outcomes[1].terminated);
  EXPECT_EQ(outcomes[0].reward, -outcomes[1].reward);
  return outcomes[0].reward;
}

TEST(KuhnPokerTest, EveryLineOfPlayEndsAsTheRulesSay) {
  constexpr std::array<std::size_t, 2> kHigher{2, 0}, kLower{0, 1};
  EXPECT_EQ(won(kHigher, {kCheck, kCheck}), 1);
  EXPECT_EQ(won(kLower, {kCheck, kCheck}), -1);
  EXPECT_EQ(won(kLower, {kBet, kFold}), 1);
  EXPECT_EQ(won(kLower, {kBet, kCall}), -2);
  EXPECT_EQ(won(kHigher, {kBet, kCall}), 2);
  EXPECT_EQ(won(kHigher, {kCheck, kBet, kFold}), -1);
  EXPECT_EQ(won(kHigher, {kCheck, kBet, kCall}), 2);
  EXPECT_EQ(won(kLower, {kCheck, kBet, kCall}), -2);
}

TEST(KuhnPokerTest, APlayerSeesItsCardItselfAndTheMovesAndNothingElse) {
  EXPECT_THAT(deal({2, 0}).observe(0), ElementsAre(0, 0, 1, 1, 0, 0, 0, 0, 0));
  EXPECT_THAT(deal({2, 0}, {kCheck, kBet}).observe(0), ElementsAre(0, 0, 1, 1, 0, 1, 0, 0, 1));
  EXPECT_THAT(deal({2, 1}, {kBet}).observe(1), ElementsAre(0, 1, 0, 0, 1, 0, 1, 0, 0));
  EXPECT_EQ(deal({2, 0}, {kCheck}).observe(0), deal({2, 1}, {kCheck}).observe(0));
}

TEST(KuhnPokerTest, MasksLeaveTheMovesOfTheRulesAndOthersAreRefused) {
  std::array<std::uint8_t, 4> mask{};
  deal({0, 1}).action_mask(0, mask);
  EXPECT_THAT(mask, ElementsAre(1, 1, 0, 0));
  deal({0, 1}, {kCheck, kBet}).action_mask(0, mask);
  EXPECT_THAT(mask, ElementsAre(0, 0, 1, 1));
  MultiAgentGroupOf<KuhnPoker> group(2);
  AgentBuffers buffers(group);
  group.reset(std::vector<std::uint64_t>{1, 2}, buffers.arrays);
  try {
    step(group, buffers, {{kCheck, kCall}, {0, 0}});
    FAIL() << "no error";
  } catch (const EnvError& error) {
    EXPECT_THAT(error.what(), HasSubstr("KuhnPoker-v0: environment 1 of 2 in step 1"));
    EXPECT_THAT(error.what(), HasSubstr("player_0 makes move 3"));
  }
}

TEST(KuhnPokerTest, PlayersActInTurnsAndTheNextDealBeginsInTheSameStep) {
  MultiAgentGroupOf<KuhnPoker> group(1);
  AgentBuffers buffers(group);
  group.reset(std::vector<std::uint64_t>{5}, buffers.arrays);
  const auto& [first, second] = std::tie(*buffers.agents[0], *buffers.agents[1]);
  EXPECT_THAT(first.acts, ElementsAre(1));
  EXPECT_THAT(second.acts, ElementsAre(0));
  EXPECT_THAT(second.mask, ElementsAre(9, 9, 9, 9)) << "not its turn";
  step(group, buffers, {{kCheck}, {77}});
  EXPECT_THAT(first.acts, ElementsAre(0));
  EXPECT_THAT(second.mask, ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(first.terminated, ElementsAre(0));
  step(group, buffers, {{77}, {kBet}});
  step(group, buffers, {{kFold}, {77}});
  EXPECT_THAT(first.reward, ElementsAre(-1));
  EXPECT_THAT(second.reward, ElementsAre(1));
  EXPECT_THAT(second.terminated, ElementsAre(1));
  EXPECT_THAT(buffers.last_seen(1), ::testing::Contains(1)) << "the last deal";
  EXPECT_THAT(first.acts, ElementsAre(1));
  EXPECT_EQ(buffers.seen(0)[5] + buffers.seen(0)[6], 0) << "no moves yet";
}

TEST(KuhnPokerTest, AllDealsAreEquallyLikely) {
  NumpyGenerator random(3);
  std::map<std::vector<float>, int> count;
  KuhnPoker game;
  constexpr int kOfEach = 1000;
  for (int i = 0; i < 6 * kOfEach; ++i) {
    game.reset(random);
    const auto a = game.observe(0), b = game.observe(1);
    std::vector<float> cards(a.begin(), a.begin() + 3);
    cards.insert(cards.end(), b.begin(), b.begin() + 3);
    ++count[cards];
  }
  ASSERT_EQ(count.size(), 6U);
  for (const auto& [cards, times] : count) EXPECT_NEAR(times, kOfEach, 120);  // four deviations
}

TEST(KuhnPokerTest, ASavedDealGoesOnAndADamagedOneIsRefused) {
  MultiAgentGroupOf<KuhnPoker> group(2), other(2);
  AgentBuffers buffers(group), others(other);
  group.reset(std::vector<std::uint64_t>{1, 2}, buffers.arrays);
  step(group, buffers, {{kCheck, kBet}, {0, 0}});
  other.load(group.save(), others.arrays);
  for (std::size_t agent = 0; agent < 2; ++agent) {
    EXPECT_EQ(others.seen(agent), buffers.seen(agent));
    EXPECT_EQ(others.agents[agent]->acts, buffers.agents[agent]->acts);
  }
  EXPECT_EQ(others.agents[1]->mask, buffers.agents[1]->mask);
  for (int i = 0; i < 20; ++i) {  // into deals that are yet to be drawn
    for (auto* both : {&buffers, &others}) {
      MultiAgentGroup& its = both == &buffers ? static_cast<MultiAgentGroup&>(group) : other;
      std::vector<std::vector<std::int64_t>> choices(2, std::vector<std::int64_t>(2));
      for (std::size_t agent = 0; agent < 2; ++agent) {
        for (std::size_t env = 0; env < 2; ++env)
          choices[agent][env] = both->agents[agent]->mask[env * 4] == 1 ? kCheck : kCall;
      }
      step(its, *both, choices);
    }
    ASSERT_EQ(others.seen(0), buffers.seen(0)) << i;
    ASSERT_EQ(others.agents[0]->reward, buffers.agents[0]->reward) << i;
  }
  KuhnPoker game = deal({0, 1}, {kCheck, kBet});
  auto state = game.save();
  state[0] = 1;  // both have a queen
  EXPECT_THROW(game.load(std::as_bytes(std::span(state))), ConfigError);
  state = deal({0, 1}).save();
  state.back() = 3;
  EXPECT_THROW(game.load(std::as_bytes(std::span(state))), CheckpointError);
}

// The equilibria: player_0 bluffs with J as often as it likes up to 1/3, bets K three times as often, and calls with Q
// 1/3 more often than it bluffs; player_1 bluffs and calls 1/3.
KuhnStrategy first_in_equilibrium(double bluff) {
  return {.bet = {bluff, 0, 3 * bluff}, .call = {0, bluff + 1.0 / 3, 1}};
}
const KuhnStrategy kSecond{.bet = {1.0 / 3, 0, 1}, .call = {0, 1.0 / 3, 1}};

TEST(KuhnNashTest, TheKnownEquilibriaHaveTheirValueAndNothingToGain) {
  for (const double bluff : {0.0, 0.1, 1.0 / 3}) {
    const KuhnStrategy first = first_in_equilibrium(bluff);
    EXPECT_THAT(kuhn_value(first, kSecond), DoubleNear(-1.0 / 18, 1e-15)) << bluff;
    EXPECT_THAT(kuhn_nash_conv(first, kSecond), DoubleNear(0, 1e-15)) << bluff;
  }
}

TEST(KuhnNashTest, OtherStrategiesCanBeExploited) {
  const KuhnStrategy coins{.bet = {0.5, 0.5, 0.5}, .call = {0.5, 0.5, 0.5}};
  EXPECT_THAT(kuhn_nash_conv(coins, coins), DoubleNear(11.0 / 12, 1e-15));
  EXPECT_THAT(kuhn_value(coins, coins), DoubleNear(0.125, 1e-15));
  EXPECT_GT(kuhn_nash_conv(first_in_equilibrium(0.5), kSecond), 0.05) << "bluffs too often";
  KuhnStrategy never_bluffs = kSecond;
  never_bluffs.bet[0] = 0;
  EXPECT_GT(kuhn_nash_conv(first_in_equilibrium(0), never_bluffs), 0.05);
}

// A policy that tells by the numbers that it sees: card, player and whether it faces a bet.
TEST(KuhnNashTest, AStrategyIsAskedForInEverySituation) {
  const KuhnProbabilities policy = [](std::span<const float> seen, std::span<const std::uint8_t> allowed) {
    const double number = 0.1 * (seen[1] + 2 * seen[2]) + 0.4 * seen[4];
    return allowed[KuhnPoker::kBet] != 0 ? std::array<double, 4>{1 - number, number, 0, 0}
                                         : std::array<double, 4>{0, 0, 0.95 - number, number + 0.05};
  };
  const KuhnStrategy first = kuhn_strategy(0, policy), second = kuhn_strategy(1, policy);
  EXPECT_THAT(first.bet, ElementsAre(DoubleNear(0, 1e-7), DoubleNear(0.1, 1e-7), DoubleNear(0.2, 1e-7)));
  EXPECT_THAT(first.call, ElementsAre(DoubleNear(0.05, 1e-7), DoubleNear(0.15, 1e-7), DoubleNear(0.25, 1e-7)));
  EXPECT_THAT(second.bet, ElementsAre(DoubleNear(0.4, 1e-7), DoubleNear(0.5, 1e-7), DoubleNear(0.6, 1e-7)));
  EXPECT_THAT(second.call, ElementsAre(DoubleNear(0.45, 1e-7), DoubleNear(0.55, 1e-7), DoubleNear(0.65, 1e-7)));
}

// The game that is played is the one that the value is of: the mean over all deals and lines of play.
TEST(KuhnNashTest, TheValueIsThatOfTheEnvironment) {
  const KuhnStrategy first{.bet = {0.1, 0.2, 0.3}, .call = {0.4, 0.5, 0.6}};
  const KuhnStrategy second{.bet = {0.9, 0.8, 0.7}, .call = {0.6, 0.45, 0.3}};
  double sum = 0;
  for (std::size_t a = 0; a < 3; ++a) {
    for (std::size_t b = 0; b < 3; ++b) {
      if (a == b) continue;
      const auto of = [&](double p, std::vector<KuhnPoker::Move> moves) { return p * won({a, b}, std::move(moves)); };
      const double bet = first.bet[a], raise = second.bet[b], call = first.call[a], calls = second.call[b];
      sum += of(bet * calls, {kBet, kCall}) + of(bet * (1 - calls), {kBet, kFold}) +
             of((1 - bet) * (1 - raise), {kCheck, kCheck}) + of((1 - bet) * raise * call, {kCheck, kBet, kCall}) +
             of((1 - bet) * raise * (1 - call), {kCheck, kBet, kFold});
    }
  }
  EXPECT_THAT(kuhn_value(first, second), DoubleNear(sum / 6, 1e-15));
}

}  // namespace
}  // namespace tandem::rl
