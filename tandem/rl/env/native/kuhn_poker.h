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
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tandem/rl/env/multi_agent_adapter.h"
#include "tandem/rl/env/native/pictures.h"

namespace tandem::rl {

/// One table, as multi_agent_adapter.h describes a struct.
class KuhnPoker {
 public:
  /// The longest deal has three moves: check, bet, and the answer to the bet.
  static constexpr std::size_t kPlayers = 2, kCards = 3, kFeatures = 9, kMostMoves = 3;
  /// A move is the action's index, and an entry of the mask.
  enum Move : std::int64_t { kCheck, kBet, kFold, kCall, kMoves };

  static MultiAgentSpec spec() {
    const AgentSpec player{.name = "player_0",
                           .observation = {{.name = "obs",
                                            .shape = {kFeatures},
                                            .low = std::vector<double>(kFeatures, 0),
                                            .high = std::vector<double>(kFeatures, 1)}},
                           .action = Discrete{kMoves},
                           .has_action_mask = true};
    AgentSpec second = player;
    second.name = "player_1";
    return {.id = "KuhnPoker-v0", .agents = {player, second}, .render_fps = 1};
  }
  void reset(NumpyGenerator& random) {
    // The second card is one of the two that are left.
    const auto first = static_cast<std::size_t>(random.integers(0, kCards));
    const auto second = static_cast<std::size_t>(random.integers(0, kCards - 1));
    deal({first, second < first ? second : second + 1});
  }
  void step(std::span<const AgentAction> actions, std::span<AgentOutcome> outcomes) {
    const std::size_t player = player_to_move();
    const std::int64_t move = actions[player].discrete.front();
    if (!allows(move))
      throw EnvError(concat("player_", player, " makes move ", move, ", which its action mask does not allow"));
    const int won = make(move);
    if (won == 0) return;
    outcomes[0] = {.reward = static_cast<double>(won), .terminated = true};
    outcomes[1] = {.reward = static_cast<double>(-won), .terminated = true};
  }
  [[nodiscard]] std::array<float, kFeatures> observe(std::size_t agent) const {
    std::array<float, kFeatures> shown{};
    shown[cards_[agent]] = 1;
    shown[kCards + agent] = 1;
    for (std::size_t i = 0; i < std::min(made_, kPlayers); ++i) {
      if (moves_[i] == kCheck || moves_[i] == kBet)
        shown[kCards + kPlayers + 2 * i + static_cast<std::size_t>(moves_[i])] = 1;
    }
    return shown;
  }
  [[nodiscard]] bool acts(std::size_t agent) const { return agent == player_to_move(); }
  void action_mask(std::size_t /*agent*/, std::span<std::uint8_t> allowed) const {
    for (std::size_t move = 0; move < allowed.size(); ++move)
      allowed[move] = allows(static_cast<std::int64_t>(move)) ? 1 : 0;
  }

  /// Both cards, and the moves so far in the order of play, each beside an arrow to the player who answers. Cards are
  /// open: the picture is for who watches, and not what an agent sees.
  void render(Canvas& canvas) const {
    constexpr std::array<const char*, kCards> kFaces{"J", "Q", "K"};
    constexpr std::array<const char*, kMoves> kWords{"check", "bet", "fold", "call"};
    std::vector<std::string> cards, moves;
    for (const std::size_t card : cards_) cards.emplace_back(kFaces[card]);
    for (std::size_t i = 0; i < made_; ++i) moves.emplace_back(kWords[static_cast<std::size_t>(moves_[i])]);
    draw_poker(canvas, cards, moves);
  }

  /// The deal as bytes (cards, moves, number of moves), and back. load() throws for a deal that cannot be.
  [[nodiscard]] std::array<std::uint8_t, kPlayers + kMostMoves + 1> save() const {
    std::array<std::uint8_t, kPlayers + kMostMoves + 1> bytes{};
    for (std::size_t p = 0; p < kPlayers; ++p) bytes[p] = static_cast<std::uint8_t>(cards_[p]);
    for (std::size_t i = 0; i < kMostMoves; ++i) bytes[kPlayers + i] = static_cast<std::uint8_t>(moves_[i]);
    bytes.back() = static_cast<std::uint8_t>(made_);
    return bytes;
  }
  void load(std::span<const std::byte> state) {
    // Goes through set(), which checks cards and moves by the rules.
    if (state.size() != kPlayers + kMostMoves + 1)
      throw CheckpointError(concat("a deal of ", state.size(), " bytes, expected ", kPlayers + kMostMoves + 1));
    const auto at = [&](std::size_t i) { return static_cast<std::size_t>(state[i]); };
    if (at(state.size() - 1) >= kMostMoves) throw CheckpointError("a deal with three moves, which has ended");
    std::vector<Move> moves;
    for (std::size_t i = 0; i < at(state.size() - 1); ++i) moves.push_back(static_cast<Move>(at(kPlayers + i)));
    set({at(0), at(1)}, moves);
  }

  /// A deal as it is before, or between, its moves: `cards` of the players, 0 .. 2 for J, Q, K, all different. Throws
  /// ConfigError on others, and on moves that the rules do not allow or that end the deal.
  void set(std::array<std::size_t, kPlayers> cards, std::span<const Move> moves) {
    if (cards[0] >= kCards || cards[1] >= kCards || cards[0] == cards[1])
      throw ConfigError(concat("Kuhn poker: cards ", cards[0], " and ", cards[1], "; they are two of 0, 1 and 2"));
    deal(cards);
    for (const Move move : moves) {
      if (!allows(move) || make(move) != 0)
        throw ConfigError(concat("Kuhn poker: move ", std::int64_t{move}, " as number ", made_,
                                 " is not allowed there, or ends the deal"));
    }
  }

 private:
  // Moves alternate, so their number says whose turn it is, and the last one whether a bet stands.
  [[nodiscard]] std::size_t player_to_move() const { return made_ % kPlayers; }
  [[nodiscard]] bool faces_bet() const { return made_ > 0 && moves_[made_ - 1] == kBet; }
  [[nodiscard]] bool allows(std::int64_t move) const {
    return faces_bet() ? move == kFold || move == kCall : move == kCheck || move == kBet;
  }
  /// Makes a move. Returns the chips that player_0 wins when the move ends the deal, and 0 while the deal goes on. The
  /// move must be allowed.
  int make(std::int64_t move) {
    const std::size_t player = player_to_move();
    moves_[made_++] = move;
    const int first_has_higher = cards_[0] > cards_[1] ? 1 : -1;
    if (move == kCall) return 2 * first_has_higher;
    if (move == kFold) return player == 0 ? -1 : 1;
    return move == kCheck && made_ == kPlayers ? first_has_higher : 0;
  }
  void deal(std::array<std::size_t, kPlayers> cards) {
    cards_ = cards;
    moves_ = {};
    made_ = 0;
  }

  // By player: 0 .. 2 for J, Q, K; and the moves so far, of which the first made_ count.
  std::array<std::size_t, kPlayers> cards_ = {0, 1};
  std::array<std::int64_t, kMostMoves> moves_ = {};
  std::size_t made_ = 0;
};

}  // namespace tandem::rl
