#include "tandem/rl/env/spec.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

// More elements than this in one leaf is a mistake in the shape, and its product must not overflow.
constexpr std::int64_t kMostElements = std::int64_t{1} << 32;

struct Faults {
  std::string subject;
  std::vector<std::string> sentences = {};

  template <typename... Values>
  void add(const Values&... values) {
    sentences.push_back(concat(subject, ": ", values...));
  }
};

// Compares as many bounds as both lists have; that their lengths differ is told elsewhere.
void judge_bounds(const std::string& name, const std::vector<double>& low, const std::vector<double>& high,
                  Faults& faults) {
  for (std::size_t i = 0; i < std::min(low.size(), high.size()); ++i) {
    // Written so that a NaN is a fault too.
    if (!(low[i] <= high[i])) faults.add(name, ": low[", i, "] = ", low[i], " must be <= high[", i, "] = ", high[i]);
  }
}

// Shape first: without a shape that makes sense, the number of bounds cannot be judged.
void judge_leaf(const Leaf& leaf, Faults& faults) {
  const std::string name = concat("observation leaf '", leaf.name, "'");
  std::int64_t count = 1;
  for (const std::int64_t extent : leaf.shape) {
    if (extent <= 0) {
      faults.add(name, ": shape [", joined(leaf.shape), "] has an extent <= 0");
      return;
    }
    // The division cannot overflow, where the product could.
    if (extent > kMostElements / count) {
      faults.add(name, ": shape [", joined(leaf.shape), "] has more than ", kMostElements, " elements");
      return;
    }
    count *= extent;
  }
  for (const auto& [bound, values] : {std::pair{"low", &leaf.low}, std::pair{"high", &leaf.high}}) {
    if (!values->empty() && static_cast<std::int64_t>(values->size()) != count) {
      faults.add(name, ": ", bound, " has ", values->size(), " entries for ", count, " elements");
    }
  }
  if (leaf.low.empty() != leaf.high.empty()) faults.add(name, ": give both low and high, or neither");
  judge_bounds(name, leaf.low, leaf.high, faults);
}

void judge_observation(const std::vector<Leaf>& leaves, Faults& faults) {
  if (leaves.empty()) faults.add("observation has no leaf; an environment shows at least one array");
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].name.empty()) faults.add("observation leaf ", i, " has no name");
    for (std::size_t j = 0; j < i; ++j) {
      if (leaves[i].name == leaves[j].name) {
        faults.add("observation leaves ", j, " and ", i, " are both named '", leaves[i].name, "'");
      }
    }
    judge_leaf(leaves[i], faults);
  }
}

void judge_action(const ActionSpace& space, Faults& faults) {
  if (const auto* discrete = std::get_if<Discrete>(&space)) {
    if (discrete->n <= 0) faults.add("action Discrete(", discrete->n, "): needs at least one action");
  } else if (const auto* multi = std::get_if<MultiDiscrete>(&space)) {
    if (multi->n.empty()) faults.add("action MultiDiscrete(): needs at least one choice");
    for (std::size_t i = 0; i < multi->n.size(); ++i) {
      if (multi->n[i] <= 0) faults.add("action MultiDiscrete: choice ", i, " has ", multi->n[i], " options");
    }
  } else {
    const auto& box = std::get<Box>(space);
    if (box.low.empty() && box.high.empty()) faults.add("action Box: needs at least one element");
    if (box.low.size() != box.high.size()) {
      faults.add("action Box: low has ", box.low.size(), " entries and high has ", box.high.size());
    }
    judge_bounds("action Box", box.low, box.high, faults);
  }
}

// The rate at which videos are shown, of an environment of either kind.
void judge_render_fps(double fps, Faults& faults) {
  constexpr double kMost = 1000;
  if (!(fps >= 0 && fps <= kMost))
    faults.add("render_fps = ", fps, "; it is above 0 and at most ", kMost, " steps a second, and 0 means not said");
}

void judge_metrics(const std::vector<Metric>& metrics, Faults& faults) {
  if (metrics.size() > kMostMetrics) faults.add("it has ", metrics.size(), " metrics; at most ", kMostMetrics, " fit");
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const std::string& name = metrics[i].name;
    if (!is_plain_name(name))
      faults.add("metric ", i, " is named '", name, "'; names are of lower-case letters, digits, '_' and '-'");
    for (std::size_t j = 0; j < i; ++j) {
      if (metrics[j].name == name) faults.add("metrics ", j, " and ", i, " are both named '", name, "'");
    }
  }
}

}  // namespace

std::int64_t Leaf::count() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t action_elements(const ActionSpace& space) {
  if (std::holds_alternative<Discrete>(space)) return 1;
  if (const auto* multi = std::get_if<MultiDiscrete>(&space)) return static_cast<std::int64_t>(multi->n.size());
  return static_cast<std::int64_t>(std::get<Box>(space).low.size());
}

std::int64_t mask_elements(const ActionSpace& space) {
  if (const auto* discrete = std::get_if<Discrete>(&space)) return discrete->n;
  const auto* multi = std::get_if<MultiDiscrete>(&space);
  return multi == nullptr ? 0 : std::accumulate(multi->n.begin(), multi->n.end(), std::int64_t{0});
}

std::vector<std::int64_t> choices_of(const ActionSpace& space) {
  if (const auto* discrete = std::get_if<Discrete>(&space)) return {discrete->n};
  const auto* multi = std::get_if<MultiDiscrete>(&space);
  return multi == nullptr ? std::vector<std::int64_t>{} : multi->n;
}

std::vector<std::string> spec_faults(const Spec& spec) {
  Faults faults{spec.id.empty() ? "environment without an id" : concat("environment '", spec.id, "'")};
  if (spec.id.empty()) faults.add("id is empty; give it a name such as \"Mine-v0\"");
  judge_observation(spec.observation, faults);
  judge_action(spec.action, faults);
  if (spec.max_episode_steps < 0) {
    faults.add("max_episode_steps = ", spec.max_episode_steps, "; a time limit is >= 1, and 0 means none");
  }
  if (spec.reward_threshold && !std::isfinite(*spec.reward_threshold)) {
    faults.add("reward_threshold = ", *spec.reward_threshold, " is not finite");
  }
  judge_render_fps(spec.render_fps, faults);
  if (spec.agents != 1) faults.add("agents = ", spec.agents, "; several agents need a MultiAgentSpec");
  if (spec.has_action_mask && std::holds_alternative<Box>(spec.action)) {
    faults.add("has_action_mask with a Box: only discrete actions can be masked");
  }
  judge_metrics(spec.metrics, faults);
  return faults.sentences;
}

bool is_plain_name(const std::string& name) {
  constexpr std::size_t kMost = 64;
  return !name.empty() && name.size() <= kMost && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

// Time limit, threshold and metrics are the whole environment's, so an agent's spec has none.
Spec agent_spec(const MultiAgentSpec& spec, std::size_t agent) {
  const AgentSpec& its = spec.agents.at(agent);
  return {.id = concat(spec.id, "/", its.name),
          .observation = its.observation,
          .action = its.action,
          .has_action_mask = its.has_action_mask};
}

Spec whole_spec(const MultiAgentSpec& spec) {
  return {.id = spec.id,
          .max_episode_steps = spec.max_episode_steps,
          .reward_threshold = spec.reward_threshold,
          .agents = static_cast<int>(spec.agents.size()),
          .render_fps = spec.render_fps,
          .metrics = spec.metrics};
}

// The faults of the whole first, then those of each agent: its name, and its part as a spec of one agent.
std::vector<std::string> spec_faults(const MultiAgentSpec& spec) {
  Faults faults{concat("environment '", spec.id, "'")};
  if (spec.id.empty()) faults.sentences.emplace_back("environment without an id: give it a name such as \"Game-v0\"");
  if (spec.agents.empty()) faults.add("it has no agent");
  if (spec.max_episode_steps < 0)
    faults.add("max_episode_steps = ", spec.max_episode_steps, "; a time limit is >= 1, and 0 means none");
  judge_render_fps(spec.render_fps, faults);
  for (std::size_t a = 0; a < spec.agents.size(); ++a) {
    const std::string& name = spec.agents[a].name;
    if (!is_plain_name(name))
      faults.add("agent ", a, " is named '", name, "'; names are of lower-case letters, digits, '_' and '-'");
    for (std::size_t b = 0; b < a; ++b) {
      if (spec.agents[b].name == name) faults.add("agents ", b, " and ", a, " are both named '", name, "'");
    }
    for (const std::string& fault : spec_faults(agent_spec(spec, a))) faults.sentences.push_back(fault);
  }
  judge_metrics(spec.metrics, faults);
  return faults.sentences;
}

void check_spec(const Spec& spec) {
  if (auto faults = spec_faults(spec); !faults.empty()) throw ConfigError(std::move(faults));
}

void check_spec(const MultiAgentSpec& spec) {
  if (auto faults = spec_faults(spec); !faults.empty()) throw ConfigError(std::move(faults));
}

const char* name_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return "float32";
    case ElementType::kUInt8:
      return "uint8";
    case ElementType::kInt64:
      return "int64";
    case ElementType::kFloat64:
      return "float64";
  }
  return "unknown";
}

std::string describe(const Leaf& leaf) {
  return concat(leaf.name, " ", name_of(leaf.type), "[", joined(leaf.shape), "]");
}

// Bounds that all elements share are shown once; of elements that differ, so many as a line has room for.
std::string describe(const ActionSpace& space) {
  if (const auto* discrete = std::get_if<Discrete>(&space)) return concat("Discrete(", discrete->n, ")");
  if (const auto* multi = std::get_if<MultiDiscrete>(&space)) return concat("MultiDiscrete(", joined(multi->n), ")");
  constexpr std::size_t kShown = 6;
  const auto& [low, high] = std::get<Box>(space);
  const std::string size = concat("Box(", low.size(), ")");
  if (low.empty() || low.size() != high.size()) return size;
  std::string bounds = concat("[", low.front(), ", ", high.front(), "]");
  // A list of equal bounds has no two neighbours that differ.
  const auto same = [](const std::vector<double>& v) {
    return std::adjacent_find(v.begin(), v.end(), std::not_equal_to<>()) == v.end();
  };
  if (same(low) && same(high)) return concat(size, " in ", bounds);
  for (std::size_t i = 1; i < std::min(low.size(), kShown); ++i) bounds += concat(" x [", low[i], ", ", high[i], "]");
  return concat(size, " in ", bounds, low.size() > kShown ? " x ..." : "");
}

}  // namespace tandem::rl
