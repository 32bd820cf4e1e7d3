// rl/env/native/kuhn_poker.h: Kuhn poker: two players, three cards, one bet: the smallest game in which bluffing pays.
//
// H. W. Kuhn, "A simplified two-person poker" (1950). Each antes 1 and is dealt one of J, Q, K. player_0 checks or bets
// 1; after a check player_1 checks or bets; whoever faces a bet folds or calls. At a showdown the higher card takes the
// pot. Rewards come with the last step, +-1 or +-2, and sum to zero. In equilibrium player_0 loses 1/18 a deal.
//
// An agent sees float32[9]: its card (3, one-hot), which player it is (2), and the first two moves (2 each: check or
// bet). Players act in turns; masks leave check and bet, or fold and call.
//
// Threads: single-thread, as every environment.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
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

}  // namespace tandem::rl
