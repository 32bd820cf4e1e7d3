// rl/env/spec.h: what an environment shows and takes. Plain values: immutable once handed to the runtime.
//
// Threads: free functions on values. Errors: check_spec() throws ConfigError; nothing else here fails.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tandem::rl {

/// Element type of an observation leaf as it lies in memory.
enum class ElementType { kFloat32, kUInt8, kInt64 };

[[nodiscard]] constexpr std::size_t size_of(ElementType type) {
  return type == ElementType::kFloat32 ? 4 : type == ElementType::kUInt8 ? 1 : 8;
}

/// One array of an observation. A plain observation is one leaf; a dict or tuple observation has several.
struct Leaf {
  std::string name = "obs";
  ElementType type = ElementType::kFloat32;
  std::vector<std::int64_t> shape = {};     // without the environment dimension; empty for a scalar
  std::vector<double> low = {}, high = {};  // bounds per element, or empty when there are none

  [[nodiscard]] std::int64_t count() const;  // product of `shape`; 1 for a scalar
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(count()) * size_of(type); }
  friend bool operator==(const Leaf&, const Leaf&) = default;
};

/// One of `n` actions, 0 .. n-1.
struct Discrete {
  std::int64_t n = 0;
  friend bool operator==(const Discrete&, const Discrete&) = default;
};
/// Several discrete choices made together; `n[i]` options for the i-th.
struct MultiDiscrete {
  std::vector<std::int64_t> n = {};
  friend bool operator==(const MultiDiscrete&, const MultiDiscrete&) = default;
};
/// A vector of real numbers within `low` .. `high`, element by element.
struct Box {
  std::vector<double> low = {}, high = {};
  friend bool operator==(const Box&, const Box&) = default;
};
using ActionSpace = std::variant<Discrete, MultiDiscrete, Box>;

/// Elements of one action in memory: Discrete 1, MultiDiscrete n.size(), Box low.size().
[[nodiscard]] std::int64_t action_elements(const ActionSpace& space);
/// Entries of the action mask: the sum of all options of a (multi-)discrete space; 0 for a Box.
[[nodiscard]] std::int64_t mask_elements(const ActionSpace& space);

struct Spec {
  std::string id;  // "CartPole-v1"
  std::vector<Leaf> observation = {};
  ActionSpace action = {};
  int max_episode_steps = 0;                    // time limit, applied by the runtime as a truncation; 0: none
  std::optional<double> reward_threshold = {};  // the return at which the task counts as solved
  int agents = 1;                               // always 1 but in a whole_spec() (multi_agent_spec.h)
  bool has_action_mask = false;                 // whether step() fills EnvArrays::action_mask
};

/// Everything that is wrong with a spec, one sentence each, naming the field and its value; empty when it can be used.
[[nodiscard]] std::vector<std::string> spec_faults(const Spec& spec);
/// Throws ConfigError with all of spec_faults().
void check_spec(const Spec& spec);

/// For messages and listings: "obs float32[4]", "Discrete(2)", "MultiDiscrete(3, 2)", "Box(1) in [-2, 2]".
[[nodiscard]] std::string describe(const Leaf& leaf);
[[nodiscard]] std::string describe(const ActionSpace& space);
[[nodiscard]] const char* name_of(ElementType type);

}  // namespace tandem::rl
