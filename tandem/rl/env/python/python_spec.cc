#include "tandem/rl/env/python/python_spec.h"

#include <algorithm>
#include <limits>
#include <variant>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

// A description has a few values a leaf, and at most a few thousand bounds.
constexpr Bounds kDescriptionBounds{.bytes = kMostDescription, .items = 1'000'000, .depth = 16};
constexpr std::size_t kMostLeaves = 1024;
constexpr std::size_t kMostDimensions = 32;
// Of all leaves together, whose bounds are written out element by element.
constexpr std::int64_t kMostElementsInAll = std::int64_t{32} << 20;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// `infinite`: what a null stands for.
std::vector<double> bounds_of(const JsonValue& value, std::int64_t count, double infinite) {
  if (value.is_number()) return std::vector<double>(static_cast<std::size_t>(count), value.as_double());
  std::vector<double> bounds;
  for (const JsonValue& bound : value.as_array()) bounds.push_back(bound.is_null() ? infinite : bound.as_double());
  return bounds;
}

// Each factor is looked at before it is multiplied.
std::int64_t count_of(const Leaf& leaf, std::int64_t most) {
  std::int64_t count = 1;
  for (const std::int64_t extent : leaf.shape) {
    if (extent <= 0 || extent > most / count)
      throw JsonError(concat("observation leaf '", leaf.name, "' has the shape [", joined(leaf.shape), "]"));
    count *= extent;
  }
  return count;
}

// `left`: the elements that this leaf and those behind it may have.
Leaf leaf_of(const JsonValue& value, std::int64_t& left) {
  Leaf leaf{.name = value.at("name").as_string(),
            .type = element_type_of(value.at("kind").as_string(), value.at("dtype").as_string())};
  const JsonValue::Array& shape = value.at("shape").as_array();
  if (shape.size() > kMostDimensions) throw JsonError(concat("a leaf of ", shape.size(), " dimensions"));
  for (const JsonValue& extent : shape) leaf.shape.push_back(extent.as_int64());
  const std::int64_t count = count_of(leaf, left);
  left -= count;
  const JsonValue &low = value.at("low"), &high = value.at("high");
  if (low.is_null() && high.is_null()) return leaf;
  const auto all = static_cast<std::size_t>(count);
  leaf.low = low.is_null() ? std::vector<double>(all, -kInfinity) : bounds_of(low, count, -kInfinity);
  leaf.high = high.is_null() ? std::vector<double>(all, kInfinity) : bounds_of(high, count, kInfinity);
  return leaf;
}

ActionSpace action_of(const JsonValue& value) {
  const std::string& type = value.at("type").as_string();
  if (type == "box") {
    const auto read = [&value](const char* key, double infinite) {
      const auto count = static_cast<std::int64_t>(value.at(key).as_array().size());
      return bounds_of(value.at(key), count, infinite);
    };
    return Box{.low = read("low", -kInfinity), .high = read("high", kInfinity)};
  }
  std::vector<std::int64_t> n;
  for (const JsonValue& options : value.at("n").as_array()) n.push_back(options.as_int64());
  if (type == "multi_discrete") return MultiDiscrete{std::move(n)};
  if (type != "discrete" || n.size() != 1) throw JsonError(concat("an action of type '", type, "'"));
  return Discrete{n.front()};
}

// What an environment or an agent shows and takes. `left`: as of leaf_of().
template <typename Shown>
void read_shown(const JsonValue& value, std::int64_t& left, Shown& shown) {
  const JsonValue::Array& leaves = value.at("observation").as_array();
  if (leaves.size() > kMostLeaves) throw JsonError(concat(leaves.size(), " leaves; at most ", kMostLeaves, " may be"));
  for (const JsonValue& leaf : leaves) shown.observation.push_back(leaf_of(leaf, left));
  shown.action = action_of(value.at("action"));
  shown.has_action_mask = value.at("mask").as_bool();
}

template <typename Whole>
void read_whole(const JsonValue& value, Whole& spec) {
  if (const JsonValue& limit = value.at("max_episode_steps"); !limit.is_null()) {
    const std::int64_t steps = limit.as_int64();
    if (steps < 1 || steps > std::numeric_limits<int>::max()) throw JsonError(concat("a time limit of ", steps));
    spec.max_episode_steps = static_cast<int>(steps);
  }
  if (const JsonValue& threshold = value.at("reward_threshold"); !threshold.is_null())
    spec.reward_threshold = threshold.as_double();
  // A rate that no video can have is the environment's mistake in what training does not look at.
  if (const JsonValue& fps = value.at("render_fps"); !fps.is_null())
    spec.render_fps = std::clamp(fps.as_double(), 0.0, 1000.0);
}

// How many there are, and what their names may be, is looked at with the spec.
std::vector<Metric> metrics_of(const JsonValue& value) {
  std::vector<Metric> metrics;
  for (const JsonValue& metric : value.at("metrics").as_array())
    metrics.push_back({.name = metric.at("name").as_string(),
                       .help = "In its info.",
                       .over = metric.at("over").as_string() == "steps" ? Over::kSteps : Over::kEpisodes});
  return metrics;
}

std::variant<Spec, MultiAgentSpec> spec_of(const std::string& id, const JsonValue& value) {
  std::int64_t left = kMostElementsInAll;
  const JsonValue* agents = value.find("agents");
  if (agents == nullptr) {
    Spec spec{.id = id};
    read_shown(value, left, spec);
    read_whole(value, spec);
    spec.metrics = metrics_of(value);
    return spec;
  }
  MultiAgentSpec spec{.id = id};
  if (agents->as_array().size() > kMostLeaves) throw JsonError(concat(agents->as_array().size(), " agents"));
  for (const JsonValue& agent : agents->as_array()) {
    AgentSpec& its = spec.agents.emplace_back(AgentSpec{.name = agent.at("name").as_string()});
    read_shown(agent, left, its);
  }
  read_whole(value, spec);
  return spec;
}

}  // namespace

ElementType element_type_of(std::string_view kind, std::string_view dtype) {
  if (kind == "discrete") return ElementType::kInt64;
  if (kind != "box") throw JsonError(concat("a leaf of kind '", kind, "'"));
  if (dtype == "uint8") return ElementType::kUInt8;
  // Float32 holds all values of the first, and float64 those of the second but integers beyond 2^53.
  constexpr std::string_view kOfFloat32 = " float16 float32 int8 int16 uint16 ";
  constexpr std::string_view kOfFloat64 = " float64 int32 uint32 int64 uint64 ";
  const std::string word = concat(" ", dtype, " ");
  if (kOfFloat32.find(word) != std::string_view::npos) return ElementType::kFloat32;
  if (kOfFloat64.find(word) != std::string_view::npos) return ElementType::kFloat64;
  throw JsonError(concat("elements of type '", dtype, "'; there are uint8,", kOfFloat32, "and", kOfFloat64));
}

PythonSpec read_python_spec(const std::string& id, std::string_view json) {
  PythonSpec read;
  try {
    const JsonValue value = read_json(json, kDescriptionBounds);
    read = {.spec = spec_of(id, value), .is_together = value.at("together").as_bool()};
  } catch (const JsonError& error) {
    throw ConfigError(concat(id, ": what its worker says of it cannot be used: ", error.what()));
  }
  std::visit([](const auto& spec) { check_spec(spec); }, read.spec);
  return read;
}

}  // namespace tandem::rl
