// rl/env/multi_agent_cartpole.h: several carts with a pole each in one environment, which know nothing of each other.
//
// Each agent's task is CartPole-v1, to the bit. An agent whose pole has fallen waits until all have, or until the time
// limit of 500 steps. What is to be learned is easy; what is shown is agents that end at different times and that may
// share a policy. After the environment of the same name in RLlib's examples.
#pragma once
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/multi_agent_adapter.h"
#include "tandem/rl/env/native/classic_group.h"

namespace tandem::rl {

class MultiAgentCartPole {
 public:
  static constexpr std::size_t kCarts = 4;
  using Shown = std::array<float, 4>;

  MultiAgentCartPole();

  static MultiAgentSpec spec();
  void reset(NumpyGenerator& random);
  void step(std::span<const AgentAction> actions, std::span<AgentOutcome> outcomes);
  [[nodiscard]] Shown observe(std::size_t agent) const { return shown_[agent]; }

  [[nodiscard]] std::vector<std::byte> save() const;
  void load(std::span<const std::byte> state);

 private:
  void show(std::size_t cart);

  // A cart that has fallen starts anew there and goes on unseen, until reset() starts all of them.
  std::unique_ptr<ClassicGroup> carts_;
  std::unique_ptr<EnvBuffers> buffers_;
  std::array<Shown, kCarts> shown_ = {};
  std::array<std::uint8_t, kCarts> fallen_ = {};
};

}  // namespace tandem::rl
