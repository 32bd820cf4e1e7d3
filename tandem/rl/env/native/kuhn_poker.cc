#include "tandem/rl/env/native/kuhn_poker.h"

#include <algorithm>
#include <vector>

namespace tandem::rl {

MultiAgentSpec KuhnPoker::spec() {
  const AgentSpec player{.name = "player_0",
                         .observation = {{.name = "obs",
                                          .shape = {kFeatures},
                                          .low = std::vector<double>(kFeatures, 0),
                                          .high = std::vector<double>(kFeatures, 1)}},
                         .action = Discrete{kMoves},
                         .has_action_mask = true};
  AgentSpec second = player;
  second.name = "player_1";
  return {.id = "KuhnPoker-v0", .agents = {player, second}};
}

void KuhnPoker::deal(std::array<std::size_t, kPlayers> cards) {
  cards_ = cards;
  moves_ = {};
  made_ = 0;
}

// The second card is one of the two that are left.
void KuhnPoker::reset(NumpyGenerator& random) {
  const auto first = static_cast<std::size_t>(random.integers(0, kCards));
  const auto second = static_cast<std::size_t>(random.integers(0, kCards - 1));
  deal({first, second < first ? second : second + 1});
}

bool KuhnPoker::allows(std::int64_t move) const {
  return faces_bet() ? move == kFold || move == kCall : move == kCheck || move == kBet;
}

int KuhnPoker::make(std::int64_t move) {
  const std::size_t player = player_to_move();
  moves_[made_++] = move;
  const int first_has_higher = cards_[0] > cards_[1] ? 1 : -1;
  if (move == kCall) return 2 * first_has_higher;
  if (move == kFold) return player == 0 ? -1 : 1;
  return move == kCheck && made_ == kPlayers ? first_has_higher : 0;
}

void KuhnPoker::step(std::span<const AgentAction> actions, std::span<AgentOutcome> outcomes) {
  const std::size_t player = player_to_move();
  const std::int64_t move = actions[player].discrete.front();
  if (!allows(move))
    throw EnvError(concat("player_", player, " makes move ", move, ", which its action mask does not allow"));
  const int won = make(move);
  if (won == 0) return;
  outcomes[0] = {.reward = static_cast<double>(won), .terminated = true};
  outcomes[1] = {.reward = static_cast<double>(-won), .terminated = true};
}

std::array<float, KuhnPoker::kFeatures> KuhnPoker::observe(std::size_t agent) const {
  std::array<float, kFeatures> shown{};
  shown[cards_[agent]] = 1;
  shown[kCards + agent] = 1;
  for (std::size_t i = 0; i < std::min(made_, kPlayers); ++i) {
    if (moves_[i] == kCheck || moves_[i] == kBet)
      shown[kCards + kPlayers + 2 * i + static_cast<std::size_t>(moves_[i])] = 1;
  }
  return shown;
}

void KuhnPoker::action_mask(std::size_t /*agent*/, std::span<std::uint8_t> allowed) const {
  for (std::size_t move = 0; move < allowed.size(); ++move)
    allowed[move] = allows(static_cast<std::int64_t>(move)) ? 1 : 0;
}

void KuhnPoker::set(std::array<std::size_t, kPlayers> cards, std::span<const Move> moves) {
  if (cards[0] >= kCards || cards[1] >= kCards || cards[0] == cards[1])
    throw ConfigError(concat("Kuhn poker: cards ", cards[0], " and ", cards[1], "; they are two of 0, 1 and 2"));
  deal(cards);
  for (const Move move : moves) {
    if (!allows(move) || make(move) != 0)
      throw ConfigError(concat("Kuhn poker: move ", std::int64_t{move}, " as number ", made_,
                               " is not allowed there, or ends the deal"));
  }
}

std::array<std::uint8_t, KuhnPoker::kPlayers + KuhnPoker::kMostMoves + 1> KuhnPoker::save() const {
  std::array<std::uint8_t, kPlayers + kMostMoves + 1> bytes{};
  for (std::size_t p = 0; p < kPlayers; ++p) bytes[p] = static_cast<std::uint8_t>(cards_[p]);
  for (std::size_t i = 0; i < kMostMoves; ++i) bytes[kPlayers + i] = static_cast<std::uint8_t>(moves_[i]);
  bytes.back() = static_cast<std::uint8_t>(made_);
  return bytes;
}

// Goes through set(), which checks cards and moves by the rules.
void KuhnPoker::load(std::span<const std::byte> state) {
  if (state.size() != kPlayers + kMostMoves + 1)
    throw CheckpointError(concat("a deal of ", state.size(), " bytes, expected ", kPlayers + kMostMoves + 1));
  const auto at = [&](std::size_t i) { return static_cast<std::size_t>(state[i]); };
  if (at(state.size() - 1) >= kMostMoves) throw CheckpointError("a deal with three moves, which has ended");
  std::vector<Move> moves;
  for (std::size_t i = 0; i < at(state.size() - 1); ++i) moves.push_back(static_cast<Move>(at(kPlayers + i)));
  set({at(0), at(1)}, moves);
}

}  // namespace tandem::rl
