// rl/env/native/kuhn_poker.h: Kuhn poker: two players, three cards, one bet: the smallest game in which bluffing pays.
//
// H. W. Kuhn, "A simplified two-person poker" (1950). Each antes 1 and is dealt one of J, Q, K. player_0 checks or bets
// 1; after a check player_1 checks or bets; whoever faces a bet folds or calls. At a showdown the higher card takes the
// pot. Rewards come with the last step, +-1 or +-2, and sum to zero. In equilibrium player_0 loses 1/18 a deal.
//
// An agent sees float32[9]: its card (3, one-hot), which player it is (2), and the first two moves (2 each: check or
// bet). Players act in turns; masks leave check and bet, or fold and call. kuhn_nash_conv() tells how good policies
// are.
//
// Threads: single-thread, as every environment.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "tandem/rl/env/multi_agent_adapter.h"

namespace tandem::rl {

/// One table, as multi_agent_adapter.h describes a struct.
class KuhnPoker {
 public:
  /// The longest deal has three moves: check, bet, and the answer to the bet.
  static constexpr std::size_t kPlayers = 2, kCards = 3, kFeatures = 9, kMostMoves = 3;
  /// A move is the action's index, and an entry of the mask.
  enum Move : std::int64_t { kCheck, kBet, kFold, kCall, kMoves };

  static MultiAgentSpec spec();
  void reset(NumpyGenerator& random);
  void step(std::span<const AgentAction> actions, std::span<AgentOutcome> outcomes);
  [[nodiscard]] std::array<float, kFeatures> observe(std::size_t agent) const;
  [[nodiscard]] bool acts(std::size_t agent) const { return agent == player_to_move(); }
  void action_mask(std::size_t agent, std::span<std::uint8_t> allowed) const;

  /// The deal as bytes (cards, moves, number of moves), and back. load() throws for a deal that cannot be.
  [[nodiscard]] std::array<std::uint8_t, kPlayers + kMostMoves + 1> save() const;
  void load(std::span<const std::byte> state);

  /// A deal as it is before, or between, its moves: `cards` of the players, 0 .. 2 for J, Q, K, all different. Throws
  /// ConfigError on others, and on moves that the rules do not allow or that end the deal.
  void set(std::array<std::size_t, kPlayers> cards, std::span<const Move> moves);

 private:
  // Moves alternate, so their number says whose turn it is, and the last one whether a bet stands.
  [[nodiscard]] std::size_t player_to_move() const { return made_ % kPlayers; }
  [[nodiscard]] bool faces_bet() const { return made_ > 0 && moves_[made_ - 1] == kBet; }
  [[nodiscard]] bool allows(std::int64_t move) const;
  /// Makes a move. Returns the chips that player_0 wins when the move ends the deal, and 0 while the deal goes on. The
  /// move must be allowed.
  int make(std::int64_t move);
  void deal(std::array<std::size_t, kPlayers> cards);

  // By player: 0 .. 2 for J, Q, K; and the moves so far, of which the first made_ count.
  std::array<std::size_t, kPlayers> cards_ = {0, 1};
  std::array<std::int64_t, kMostMoves> moves_ = {};
  std::size_t made_ = 0;
};

// How far strategies are from the equilibrium, exactly: a deal is one of six, and a player has six situations in which
// it chooses between two moves, so everything is summed over all deals and lines of play, and best responses are found
// among all 64 pure strategies.

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
