#include "tandem/rl/env/native/kuhn_nash.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tandem::rl {
namespace {

constexpr std::size_t kCards = 3;
constexpr int kPureStrategies = 64;  // two moves in each of six situations

// The average gain of player_0 when the cards are dealt like this. `higher`: 1 when player_0 has the higher card, else
// -1.
double value_of_deal(double higher, std::size_t card0, std::size_t card1, const KuhnStrategy& first,
                     const KuhnStrategy& second) {
  const double after_bet = second.call[card1] * 2 * higher + (1 - second.call[card1]) * 1;
  const double after_check_bet = first.call[card0] * 2 * higher + (1 - first.call[card0]) * -1;
  const double after_check = second.bet[card1] * after_check_bet + (1 - second.bet[card1]) * higher;
  return first.bet[card0] * after_bet + (1 - first.bet[card0]) * after_check;
}

// Bit i of the number says whether the player puts in a chip in situation i.
KuhnStrategy pure_strategy(int number) {
  KuhnStrategy strategy;
  for (std::size_t card = 0; card < kCards; ++card) {
    strategy.bet[card] = (number >> card) & 1;
    strategy.call[card] = (number >> (kCards + card)) & 1;
  }
  return strategy;
}

}  // namespace

// Sets up the six situations in a game and asks for the probabilities there. A player sees its own card alone, so any
// card of the other serves.
KuhnStrategy kuhn_strategy(std::size_t player, const KuhnProbabilities& probabilities) {
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

double kuhn_value(const KuhnStrategy& first, const KuhnStrategy& second) {
  double sum = 0;
  for (std::size_t card0 = 0; card0 < kCards; ++card0) {
    for (std::size_t card1 = 0; card1 < kCards; ++card1) {
      if (card0 != card1) sum += value_of_deal(card0 > card1 ? 1 : -1, card0, card1, first, second);
    }
  }
  return sum / (kCards * (kCards - 1));
}

double kuhn_nash_conv(const KuhnStrategy& first, const KuhnStrategy& second) {
  double best_of_first = -2, best_of_second = 2;  // as what player_0 wins
  for (int number = 0; number < kPureStrategies; ++number) {
    best_of_first = std::max(best_of_first, kuhn_value(pure_strategy(number), second));
    best_of_second = std::min(best_of_second, kuhn_value(first, pure_strategy(number)));
  }
  return best_of_first - best_of_second;
}

}  // namespace tandem::rl
