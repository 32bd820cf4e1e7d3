#include "python/src/spec_dict.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <variant>
#include <vector>

namespace nb = nanobind;

namespace tandem::python {
namespace {

nb::dict leaf_dict(const rl::Leaf& leaf) {
  nb::dict its;
  its["name"] = leaf.name;
  its["dtype"] = rl::name_of(leaf.type);
  its["shape"] = leaf.shape;
  its["low"] = leaf.low;
  its["high"] = leaf.high;
  return its;
}

nb::dict action_dict(const rl::ActionSpace& space) {
  nb::dict its;
  if (const auto* box = std::get_if<rl::Box>(&space)) {
    its["type"] = "box";
    its["low"] = box->low;
    its["high"] = box->high;
  } else {
    its["type"] = std::holds_alternative<rl::Discrete>(space) ? "discrete" : "multi_discrete";
    its["n"] = rl::choices_of(space);
  }
  return its;
}

}  // namespace

nb::dict spec_dict(const rl::Spec& spec) {
  nb::dict its;
  its["id"] = spec.id;
  nb::list leaves, metrics;
  for (const rl::Leaf& leaf : spec.observation) leaves.append(leaf_dict(leaf));
  for (const rl::Metric& metric : spec.metrics) metrics.append(metric.name);
  its["leaves"] = leaves;
  its["action"] = action_dict(spec.action);
  its["mask_elements"] = spec.has_action_mask ? rl::mask_elements(spec.action) : 0;
  its["max_episode_steps"] = spec.max_episode_steps;
  its["reward_threshold"] = spec.reward_threshold ? nb::cast(*spec.reward_threshold) : nb::none();
  its["metrics"] = metrics;
  return its;
}

}  // namespace tandem::python
