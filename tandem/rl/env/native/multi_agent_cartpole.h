// rl/env/native/multi_agent_cartpole.h: several carts with a pole each in one environment, which know nothing of each
// other.
//
// Each agent's task is CartPole-v1, to the bit. An agent whose pole has fallen waits until all poles have, or until the
// time limit of 500 steps. The task is easy to learn; the environment is there for agents that end at different times
// and that may share a policy. RLlib's examples have an environment of the same name.
//
// Threads: single-thread, as every environment.
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

/// One environment of kCarts agents, as multi_agent_adapter.h describes a struct.
class MultiAgentCartPole {
 public:
  static constexpr std::size_t kCarts = 4;
  /// Place and speed of the cart, angle and angular speed of the pole, as CartPole-v1 shows them.
  using Shown = std::array<float, 4>;

  MultiAgentCartPole();

  static MultiAgentSpec spec();
  /// Each cart gets a seed that `random` draws.
  void reset(NumpyGenerator& random);
  void step(std::span<const AgentAction> actions, std::span<AgentOutcome> outcomes);
  [[nodiscard]] Shown observe(std::size_t agent) const { return shown_[agent]; }

  /// Which carts have fallen, and the state of the carts, as bytes; and back.
  [[nodiscard]] std::vector<std::byte> save() const;
  void load(std::span<const std::byte> state);

 private:
  // Takes over what the group shows of a cart.
  void show(std::size_t cart);

  // In this group a cart that has fallen starts anew and goes on unseen, until reset() starts all of them.
  std::unique_ptr<ClassicGroup> carts_;
  std::unique_ptr<EnvBuffers> buffers_;
  // By cart: what its agent sees, and whether its pole has fallen in this episode.
  std::array<Shown, kCarts> shown_ = {};
  std::array<std::uint8_t, kCarts> fallen_ = {};
};

}  // namespace tandem::rl
