// An environment of one agent as one of several.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tandem/rl/env/env_group.h"

namespace tandem::rl::testing {

class OneAgent final : public MultiAgentGroup {
 public:
  explicit OneAgent(std::unique_ptr<EnvGroup> inner) : inner_(std::move(inner)) {
    const Spec& spec = inner_->spec();
    spec_ = {.id = spec.id, .agents = {{.name = "one", .observation = spec.observation, .action = spec.action}}};
  }
  [[nodiscard]] const MultiAgentSpec& spec() const override { return spec_; }
  [[nodiscard]] int size() const override { return inner_->size(); }
  void reset(std::span<const std::uint64_t> seeds, std::span<const AgentArrays> out) override {
    inner_->reset(seeds, out[0].env);
    std::fill_n(out[0].acts, size(), std::uint8_t{1});
  }
  void step(std::span<const EnvActions> actions, std::span<const AgentArrays> out) override {
    inner_->step(actions[0], out[0].env);
  }
  [[nodiscard]] bool can_save() const override { return false; }
  [[nodiscard]] std::vector<std::byte> save() const override { return {}; }
  void load(std::span<const std::byte>, std::span<const AgentArrays>) override {}

 private:
  const std::unique_ptr<EnvGroup> inner_;
  MultiAgentSpec spec_;
};

}  // namespace tandem::rl::testing
