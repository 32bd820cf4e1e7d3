// Memory for the arrays of a MultiAgentGroup, and actions by agent.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "tandem/rl/env/env_group.h"

namespace tandem::rl::testing {

struct AgentBuffers {
  explicit AgentBuffers(const MultiAgentGroup& group) : rows(static_cast<std::size_t>(group.size())) {
    for (const AgentSpec& agent : group.spec().agents) {
      auto& its = agents.emplace_back(std::make_unique<One>());
      for (const Leaf& leaf : agent.observation) {
        its->observation.emplace_back(rows * leaf.bytes());
        its->final_observation.emplace_back(rows * leaf.bytes());
      }
      its->mask.assign(rows * static_cast<std::size_t>(mask_elements(agent.action)), 9);
      its->reward.assign(rows, -99);
      its->terminated.assign(rows, 9);
      its->truncated.assign(rows, 9);
      its->acts.assign(rows, 9);
      AgentArrays& to = arrays.emplace_back();
      for (auto& leaf : its->observation) to.env.observation.push_back(leaf.data());
      for (auto& leaf : its->final_observation) to.env.final_observation.push_back(leaf.data());
      if (agent.has_action_mask) to.env.action_mask = its->mask.data();
      to.env.reward = its->reward.data();
      to.env.terminated = its->terminated.data();
      to.env.truncated = its->truncated.data();
      to.acts = its->acts.data();
    }
  }

  /// Floats of a row of an agent's first leaf.
  [[nodiscard]] std::vector<float> seen(std::size_t agent, std::size_t env = 0) const {
    return floats(agents[agent]->observation[0], env);
  }
  [[nodiscard]] std::vector<float> last_seen(std::size_t agent, std::size_t env = 0) const {
    return floats(agents[agent]->final_observation[0], env);
  }

  struct One {
    std::vector<std::vector<std::byte>> observation, final_observation;
    std::vector<std::uint8_t> mask, terminated, truncated, acts;
    std::vector<double> reward;
  };
  const std::size_t rows;
  std::vector<std::unique_ptr<One>> agents;
  std::vector<AgentArrays> arrays;

 private:
  [[nodiscard]] std::vector<float> floats(const std::vector<std::byte>& leaf, std::size_t env) const {
    const std::size_t count = leaf.size() / rows / sizeof(float);
    const auto* numbers = reinterpret_cast<const float*>(leaf.data()) + env * count;
    return {numbers, numbers + count};
  }
};

/// `choices`: by agent, then by environment.
inline void step(MultiAgentGroup& group, const AgentBuffers& buffers,
                 const std::vector<std::vector<std::int64_t>>& choices) {
  std::vector<EnvActions> actions;
  for (const std::vector<std::int64_t>& its : choices) actions.push_back({.discrete = its.data()});
  group.step(actions, buffers.arrays);
}

}  // namespace tandem::rl::testing
