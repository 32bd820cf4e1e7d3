// rl/env/one_agent_group.h: an EnvGroup seen as a MultiAgentGroup of one agent, so that what serves several agents
// serves one as well.
//
// Threads: single-thread, as the group. Owns the group. Errors: those of the group pass unchanged.
#pragma once
#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tandem/rl/env/env_group.h"

namespace tandem::rl {

/// The agent's name is "agent". It acts in every step, also in the first one after its episode has ended: the group
/// begins the next episode by itself.
class OneAgentGroup final : public MultiAgentGroup {
 public:
  /// The agent's spaces, the time limit, the threshold and the metrics are those of `group`.
  explicit OneAgentGroup(std::unique_ptr<EnvGroup> group) : group_(std::move(group)) {
    const Spec& its = group_->spec();
    spec_ = {.id = its.id,
             .agents = {{.name = "agent",
                         .observation = its.observation,
                         .action = its.action,
                         .has_action_mask = its.has_action_mask}},
             .max_episode_steps = its.max_episode_steps,
             .reward_threshold = its.reward_threshold,
             .render_fps = its.render_fps,
             .metrics = its.metrics};
  }

  [[nodiscard]] const MultiAgentSpec& spec() const override { return spec_; }
  [[nodiscard]] int size() const override { return group_->size(); }
  void reset(std::span<const std::uint64_t> seeds, std::span<const AgentArrays> out) override {
    group_->reset(seeds, out[0].env);
    all_act(out);
  }
  void step(std::span<const EnvActions> actions, std::span<const AgentArrays> out) override {
    group_->step(actions[0], out[0].env);
    all_act(out);
  }
  void set_progress(double share) override { group_->set_progress(share); }
  /// The bytes are the group's own, so either may load what the other saved.
  [[nodiscard]] bool can_save() const override { return group_->can_save(); }
  [[nodiscard]] std::vector<std::byte> save() const override { return group_->save(); }
  void load(std::span<const std::byte> state, std::span<const AgentArrays> out) override {
    group_->load(state, out[0].env);
    all_act(out);
  }
  /// Pictures and ends are those of the group.
  [[nodiscard]] bool can_render() const override { return group_->can_render(); }
  void render(int env, Canvas& canvas) const override { group_->render(env, canvas); }
  void watch_ends(std::function<void(int env)> at_end) override { group_->watch_ends(std::move(at_end)); }

 private:
  void all_act(std::span<const AgentArrays> out) const { std::fill_n(out[0].acts, size(), std::uint8_t{1}); }

  const std::unique_ptr<EnvGroup> group_;
  MultiAgentSpec spec_;
};

}  // namespace tandem::rl
