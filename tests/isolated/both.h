// Groups of a test in processes of their own, and what they are stepped with.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/isolated/isolated_envs.h"

namespace tandem::rl::isolated_test {

struct Task {
  std::string env;
  std::vector<std::filesystem::path> plugins = {};
  EnvOptionTexts options = {};

  [[nodiscard]] EnvRegistry registry() const {
    EnvRegistry known = EnvRegistry::native();
    for (const std::filesystem::path& plugin : plugins) known.load_plugin(plugin);
    known.set_options(env, options);
    return known;
  }
  [[nodiscard]] IsolationOptions isolation() const {
    return {.task = {.env = env, .options = options, .plugins = plugins}};
  }
};

inline std::unique_ptr<EnvGroup> isolated(const Task& task, int count, std::shared_ptr<RestartBudget> budget = {}) {
  return std::make_unique<IsolatedEnvs>(task.registry().spec(task.env), count, task.isolation(), std::move(budget));
}

inline std::vector<std::uint64_t> seeds(int count) {
  std::vector<std::uint64_t> all;
  for (int e = 0; e < count; ++e) all.push_back(17 + static_cast<std::uint64_t>(e));
  return all;
}

/// A group, its arrays, and actions that follow from the number of the step.
class Stepped {
 public:
  explicit Stepped(std::unique_ptr<EnvGroup> group) : group_(std::move(group)), buffers_(*group_) {}

  void reset() { group_->reset(seeds(group_->size()), buffers_.arrays()); }
  void step() {
    ++steps_;
    const auto elements = static_cast<std::size_t>(action_elements(group_->spec().action)) * buffers_.rows();
    std::vector<std::int64_t> discrete(elements);
    std::vector<float> box(elements);
    for (std::size_t i = 0; i < elements; ++i) {
      discrete[i] = static_cast<std::int64_t>((steps_ * 7 + i * 3) % 11 % 2);
      box[i] = static_cast<float>(discrete[i]) - 0.3F;
    }
    const bool is_box = std::holds_alternative<Box>(group_->spec().action);
    group_->step(is_box ? EnvActions{.box = box.data()} : EnvActions{.discrete = discrete.data()}, buffers_.arrays());
  }
  [[nodiscard]] EnvGroup& group() { return *group_; }
  [[nodiscard]] const EnvBuffers& buffers() const { return buffers_; }
  void load(std::span<const std::byte> state) { group_->load(state, buffers_.arrays()); }

 private:
  std::unique_ptr<EnvGroup> group_;
  EnvBuffers buffers_;
  std::size_t steps_ = 0;
};

}  // namespace tandem::rl::isolated_test
