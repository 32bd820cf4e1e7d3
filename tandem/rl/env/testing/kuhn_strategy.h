// Strategies of Kuhn poker and how far they are from its equilibrium, for tests that play the game.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tandem/rl/env/native/kuhn_poker.h"

namespace tandem::rl::testing {

// How far strategies are from the equilibrium, exactly: a deal is one of six, and a player has six situations in which
// it chooses between two moves, so everything is summed over all deals and lines of play, and best responses are found
// among all 64 pure strategies.

// One player's probabilities of putting in a chip, by its card (J, Q, K): unbid, of betting; facing a bet, of calling.
// player_0 is unbid at the start, player_1 after a check. The other move of each situation has the rest of the
// probability.
struct KuhnStrategy {
  std::array<double, 3> bet = {}, call = {};
};

// Returns a player's probabilities of all moves when it sees `observation` and may make the moves that are `allowed`.
using KuhnProbabilities = std::function<std::array<double, KuhnPoker::kMoves>(std::span<const float> observation,
                                                                              std::span<const std::uint8_t> allowed)>;

inline constexpr std::size_t kCards = KuhnPoker::kCards;
inline constexpr int kPureStrategies = 64;  // two moves in each of six situations

// The average gain of player_0 when the cards are dealt like this. `higher`: 1 when player_0 has the higher card, else
// -1.
inline double value_of_deal(double higher, std::size_t card0, std::size_t card1, const KuhnStrategy& first,
                            const KuhnStrategy& second) {
  const double after_bet = second.call[card1] * 2 * higher + (1 - second.call[card1]) * 1;
  const double after_check_bet = first.call[card0] * 2 * higher + (1 - first.call[card0]) * -1;
  const double after_check = second.bet[card1] * after_check_bet + (1 - second.bet[card1]) * higher;
  return first.bet[card0] * after_bet + (1 - first.bet[card0]) * after_check;
}

// Bit i of the number says whether the player puts in a chip in situation i.
inline KuhnStrategy pure_strategy(int number) {
  KuhnStrategy strategy;
  for (std::size_t card = 0; card < kCards; ++card) {
    strategy.bet[card] = (number >> card) & 1;
    strategy.call[card] = (number >> (kCards + card)) & 1;
  }
  return strategy;
}

// The strategy of a policy as player 0 or 1: sets up each of the player's six situations in a game and asks for the
// probabilities there. A player sees its own card alone, so any card of the other serves.
[[nodiscard]] inline KuhnStrategy kuhn_strategy(std::size_t player, const KuhnProbabilities& probabilities) {
  using enum KuhnPoker::Move;
  const std::vector<KuhnPoker::Move> unbid = player == 0 ? std::vector<KuhnPoker::Move>{} : std::vector{kCheck};
  const std::vector<KuhnPoker::Move> facing_bet = player == 0 ? std::vector{kCheck, kBet} : std::vector{kBet};
  const auto probability = [&](std::size_t card, const std::vector<KuhnPoker::Move>& moves, KuhnPoker::Move move) {
    KuhnPoker game;
    std::array<std::size_t, 2> cards{};
    cards[player] = card;
    cards[1 - player] = (card + 1) % kCards;  // which of the others is not seen
    game.set(cards, moves);
    std::array<std::uint8_t, KuhnPoker::kMoves> allowed{};
    game.action_mask(player, allowed);
    return probabilities(game.observe(player), allowed)[static_cast<std::size_t>(move)];
  };
  KuhnStrategy strategy;
  for (std::size_t card = 0; card < kCards; ++card) {
    strategy.bet[card] = probability(card, unbid, kBet);
    strategy.call[card] = probability(card, facing_bet, kCall);
  }
  return strategy;
}

// The average gain of player_0 in a deal, in chips; player_1 loses as much. It is -1/18 in equilibrium. It is a sum
// over all deals and all lines of play, so nothing is sampled.
[[nodiscard]] inline double kuhn_value(const KuhnStrategy& first, const KuhnStrategy& second) {
  double sum = 0;
  for (std::size_t card0 = 0; card0 < kCards; ++card0) {
    for (std::size_t card1 = 0; card1 < kCards; ++card1) {
      if (card0 != card1) sum += value_of_deal(card0 > card1 ? 1 : -1, card0, card1, first, second);
    }
  }
  return sum / (kCards * (kCards - 1));
}

// NashConv (Lanctot et al., "A unified game-theoretic approach to multiagent reinforcement learning", 2017): the sum
// of what each player would gain by its best response to the other as it is. Zero in equilibrium, 11/12 when both toss
// coins.
[[nodiscard]] inline double kuhn_nash_conv(const KuhnStrategy& first, const KuhnStrategy& second) {
  double best_of_first = -2, best_of_second = 2;  // as what player_0 wins
  for (int number = 0; number < kPureStrategies; ++number) {
    best_of_first = std::max(best_of_first, kuhn_value(pure_strategy(number), second));
    best_of_second = std::min(best_of_second, kuhn_value(first, pure_strategy(number)));
  }
  return best_of_first - best_of_second;
}

}  // namespace tandem::rl::testing
