// rl/env/native/kuhn_nash.h: how far strategies of Kuhn poker are from its equilibrium, exactly.
//
// A deal is one of six, and a player has six situations in which it chooses between two moves, so everything is summed
// over all deals and lines of play, and best responses are found among all 64 pure strategies.
//
// Threads: free functions on values.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "tandem/rl/env/native/kuhn_poker.h"

namespace tandem::rl {

/// One player's probabilities of putting in a chip, by its card (J, Q, K): unbid, of betting; facing a bet, of calling.
/// player_0 is unbid at the start, player_1 after a check. The other move of each situation has the rest of the
/// probability.
struct KuhnStrategy {
  std::array<double, 3> bet = {}, call = {};
};

/// Returns a player's probabilities of all moves when it sees `observation` and may make the moves that are `allowed`.
using KuhnProbabilities = std::function<std::array<double, KuhnPoker::kMoves>(std::span<const float> observation,
                                                                              std::span<const std::uint8_t> allowed)>;
/// The strategy of a policy as player 0 or 1: asks for its probabilities in each of the player's six situations.
[[nodiscard]] KuhnStrategy kuhn_strategy(std::size_t player, const KuhnProbabilities& probabilities);

/// The average gain of player_0 in a deal, in chips; player_1 loses as much. It is -1/18 in equilibrium. It is a sum
/// over all deals and all lines of play, so nothing is sampled.
[[nodiscard]] double kuhn_value(const KuhnStrategy& first, const KuhnStrategy& second);

/// NashConv (Lanctot et al., "A unified game-theoretic approach to multiagent reinforcement learning", 2017): the sum
/// of what each player would gain by its best response to the other as it is. Zero in equilibrium, 11/12 when both toss
/// coins.
[[nodiscard]] double kuhn_nash_conv(const KuhnStrategy& first, const KuhnStrategy& second);

}  // namespace tandem::rl
