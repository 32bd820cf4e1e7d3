// rl/env/python/python_spec.h: what a Python environment shows and takes, from the words of its worker (kDescribe of
// isolated/region_layout.h):
//
//   {"observation": [{"name": "obs", "kind": "box", "dtype": "float32", "shape": [4], "low": [-4.8, null, ...],
//                     "high": null}],
//    "action": {"type": "discrete", "n": [2]}, "mask": false, "metrics": [{"name": "is_success", "over": "episodes"}],
//    "max_episode_steps": 500, "reward_threshold": 475.0, "render_fps": 50.0, "together": false, "gymnasium": "1.4.0"}
//
// In the place of the first three, an environment of several agents has "agents": a list of objects with these three
// and "name". A leaf is of kind "box" (numbers) or "discrete" (choices). A bound is a number for all elements, a list,
// or null for none; a null in a list is infinite. An action is "discrete" or "multi_discrete" with "n", or "box" with
// two lists. A metric is one over "episodes" or over "steps"; environments of several agents have none.
//
// Free functions on values. Threads: all. Nothing that a worker says is believed: ConfigError names what does not fit.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "tandem/rl/env/spec.h"

namespace tandem::rl {

/// The longest description that is read.
inline constexpr std::uint64_t kMostDescription = 4 << 20;

/// A Python environment, as its worker describes it.
struct PythonSpec {
  std::variant<Spec, MultiAgentSpec> spec;
  /// Whether one object steps all environments of a worker.
  bool is_together = false;
};
/// `id`: the name that the spec gets. Throws ConfigError for a text that is no description, and with the faults of the
/// spec.
[[nodiscard]] PythonSpec read_python_spec(const std::string& id, std::string_view json);

/// How the elements of a leaf lie in memory. Numbers that are no pixels become floats, choices int64.
[[nodiscard]] ElementType element_type_of(std::string_view kind, std::string_view dtype);

}  // namespace tandem::rl
