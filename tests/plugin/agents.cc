#include "coin.h"

// Two agents see the same bit, and both get 1 when both name it. Four bits are an episode.
struct Echo {
  static tandem::rl::MultiAgentSpec spec() {
    const std::vector<tandem::rl::Leaf> seen{{.name = "bit", .shape = {1}}};
    return {.id = "Echo-v0",
            .agents = {{.name = "left", .observation = seen, .action = tandem::rl::Discrete{2}},
                       {.name = "right", .observation = seen, .action = tandem::rl::Discrete{2}}},
            .max_episode_steps = 4};
  }
  void reset(tandem::rl::NumpyGenerator& random) {
    drawn = &random;
    bit = drawn->integers(0, 2);
  }
  void step(std::span<const tandem::rl::AgentAction> actions, std::span<tandem::rl::AgentOutcome> outcomes) {
    const bool named = actions[0].discrete.front() == bit && actions[1].discrete.front() == bit;
    for (tandem::rl::AgentOutcome& outcome : outcomes) outcome.reward = named ? 1 : 0;
    bit = drawn->integers(0, 2);
  }
  std::array<float, 1> observe(std::size_t) const { return {static_cast<float>(bit)}; }

  tandem::rl::NumpyGenerator* drawn = nullptr;
  std::int64_t bit = 0;
};

TANDEM_ENV_PLUGIN(Coin, Echo);
