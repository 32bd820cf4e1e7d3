// rl/env/python/python_agents.h: environments of several agents in workers that know groups of one (region_layout.h).
//
// In the memory such an environment is one of one agent (joint_spec()), which sees the leaves of all agents one behind
// the other, and behind them what each agent was told: its reward, whether its episode ended, and whether it acts next.
// Its action is that of all agents, one behind the other. Its episode ends with that of the last agent; `terminated`
// says so, and a step that was lost with its worker is `truncated`.
//
// Threads, blocking and errors: as the group that it is made of.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/env_group.h"

namespace tandem::rl {

/// Throws ConfigError when some agents have a Box and others choices.
[[nodiscard]] Spec joint_spec(const MultiAgentSpec& spec);

/// A group of joint_spec() as one of several agents.
class PythonAgents final : public MultiAgentGroup {
 public:
  PythonAgents(MultiAgentSpec spec, std::unique_ptr<EnvGroup> joint);

  [[nodiscard]] const MultiAgentSpec& spec() const override { return spec_; }
  [[nodiscard]] int size() const override { return joint_->size(); }
  void reset(std::span<const std::uint64_t> seeds, std::span<const AgentArrays> out) override;
  void step(std::span<const EnvActions> actions, std::span<const AgentArrays> out) override;
  [[nodiscard]] bool can_save() const override { return false; }
  [[nodiscard]] std::vector<std::byte> save() const override;
  void load(std::span<const std::byte> state, std::span<const AgentArrays> out) override;
  [[nodiscard]] bool can_render() const override { return joint_->can_render(); }
  void render(int env, Canvas& canvas) const override { joint_->render(env, canvas); }
  void watch_ends(std::function<void(int env)> at_end) override { joint_->watch_ends(std::move(at_end)); }

 private:
  // An agent's place in what all share: its first leaf, action element and mask entry.
  struct Place {
    std::size_t leaf = 0, action = 0, mask = 0;
  };
  // What agent a of environment e was told, in one of the two arrays of told leaves.
  struct Told {
    double reward = 0;
    std::uint8_t terminated = 0, truncated = 0, acts = 0;
  };
  [[nodiscard]] Told told(const std::vector<std::byte*>& leaves, std::size_t env, std::size_t agent) const;

  // Whether the agent chooses an action for the next step: it says so, and its episode has not ended.
  [[nodiscard]] bool acts(std::size_t env, std::size_t agent) const;
  void write_shown(std::span<const AgentArrays> out);
  void write_ends(std::span<const AgentArrays> out);
  [[nodiscard]] std::size_t rows() const { return buffers_.rows(); }

  const MultiAgentSpec spec_;
  const std::unique_ptr<EnvGroup> joint_;
  EnvBuffers buffers_;
  std::vector<Place> places_;
  std::vector<std::uint8_t> in_game_;  // [environments, agents]
  // The actions of all agents, an environment a row; one of the two is used.
  std::vector<std::int64_t> discrete_;
  std::vector<float> box_;
};

}  // namespace tandem::rl
