// The plan: load the plugins, keep the environment that was named or all of them, and print them as JSON, as one
// description or as two tables. Environments of one and of several agents are listed apart, since the latter have a
// space for each agent. A name that stands for environments of a Python has that Python list them (python_listing.h).
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iostream>
#include <vector>

#include "tandem/app/commands/columns.h"
#include "tandem/app/commands/commands.h"
#include "tandem/app/commands/python_listing.h"
#include "tandem/app/config/presets.h"
#include "tandem/app/train/isolation.h"
#include "tandem/app/train/python_choice.h"
#include "tandem/base/json_writer.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/mujoco/mujoco_envs.h"
#include "tandem/rl/env/wrappers/wrapper_list.h"

namespace tandem::app {
namespace {

std::string observation_of(const rl::Spec& spec) {
  return joined(spec.observation, [](const rl::Leaf& leaf) { return rl::describe(leaf); });
}

std::string limit_of(const rl::Spec& spec) {
  return spec.max_episode_steps == 0 ? "none" : std::to_string(spec.max_episode_steps);
}

std::string threshold_of(const rl::Spec& spec) {
  return spec.reward_threshold ? concat(*spec.reward_threshold) : "none";
}

// An environment of one agent or of several, whose own observations and actions are in each one's spec.
struct Listed {
  rl::Spec whole;
  std::string origin;
  std::vector<rl::EnvOption> options = {};
  std::vector<std::pair<std::string, rl::Spec>> agents = {};  // by name; empty: there is one, as `whole` says
};

std::string list(const std::vector<Listed>& environments, bool of_several) {
  std::vector<std::array<std::string, 6>> rows{{"name", "observation", "action", "time limit", "solved at", "from"}};
  if (of_several) rows = {{"several agents", "agents", "", "time limit", "solved at", "from"}};
  for (const auto& [whole, origin, options, agents] : environments) {
    if (agents.empty() == of_several) continue;
    const std::string names = joined(agents, [](const auto& agent) { return agent.first; });
    rows.push_back({whole.id, of_several ? names : observation_of(whole), of_several ? "" : rl::describe(whole.action),
                    limit_of(whole), threshold_of(whole), origin});
  }
  return in_columns(rows);
}

// A leaf without bounds has an empty `low`. Bounds that all elements have are told once, and those of an image in part.
std::string bounds_of(const rl::Leaf& leaf) {
  constexpr std::size_t kMostTold = 32;
  if (leaf.low.empty()) return "";
  const auto are_equal = [](const std::vector<double>& bounds) {
    return std::ranges::adjacent_find(bounds, std::not_equal_to<>()) == bounds.end();
  };
  const bool are_all_equal = are_equal(leaf.low) && are_equal(leaf.high);
  const std::size_t told = are_all_equal ? 1 : std::min(leaf.low.size(), kMostTold);
  std::string text;
  for (std::size_t i = 0; i < told; ++i) text += concat(i == 0 ? "" : ", ", leaf.low[i], " to ", leaf.high[i]);
  const bool has_more = !are_all_equal && told < leaf.low.size();
  return concat("    within ", text, has_more ? concat(", and so on for ", leaf.low.size(), " elements") : "", "\n");
}

// Describes the observations and actions of an agent.
std::string spaces_of(const rl::Spec& spec) {
  std::string text;
  for (const rl::Leaf& leaf : spec.observation)
    text += concat("  observation  ", rl::describe(leaf), "\n", bounds_of(leaf));
  return text + concat("  action       ", rl::describe(spec.action), spec.has_action_mask ? ", masked" : "", "\n");
}

// The settings that each algorithm takes for it, above its own defaults.
std::string presets_of(const std::string& env) {
  std::string text;
  for (const Preset& preset : presets()) {
    const bool is_own = find_preset(preset.algo, env) == &preset;
    const bool stands_in = preset.env == kUnknownEnvironment && find_preset(preset.algo, env) == nullptr;
    if (!is_own && !stands_in) continue;
    std::string indented;
    for (const char c : preset.text) indented += c == '\n' ? "\n  " : std::string(1, c);
    indented.erase(indented.find_last_not_of("\n ") + 1);
    text += concat(is_own ? "\nShipped settings for " : "\nSettings for unknown environments, for ", preset.algo,
                   ":\n  ", indented, "\n");
  }
  return text;
}

const char* unit_of(rl::Over over) { return over == rl::Over::kSteps ? "steps" : "episodes"; }

std::string limits_of(const rl::EnvOption& option) {
  const auto& [least, most, words] = option.limits;
  if (!words.empty()) return concat(", one of ", joined(words));
  if (std::isinf(least) && std::isinf(most)) return "";
  return concat(", ", least, " to ", most);
}

// "  gravity      9.8  (a number, 0.1 to 100)  Acceleration downwards, m/s^2."
std::string options_text(const std::vector<rl::EnvOption>& options) {
  if (options.empty()) return "";
  std::string text = "\nOptions (--env-option NAME=VALUE):\n";
  for (const rl::EnvOption& option : options) {
    text += concat("  ", align_left(option.name, 12), " ", rl::text_of(option.standard), "  (", rl::type_of(option),
                   limits_of(option), ")  ", option.help, "\n");
  }
  return text;
}

// "  frame_stack=N[:zero][@LEAF]  Shows the last N observations. ..."
std::string wrappers_text() {
  std::string text = "\nWrappers (--env-wrapper NAME=VALUE; the first one is nearest to the environment):\n";
  for (const rl::WrapperInfo& wrapper : rl::known_wrappers())
    text += concat("  ", align_left(wrapper.name + wrapper.takes, 38), " ", wrapper.help, "\n");
  return text;
}

// "  success      Share of the episodes that end at the goal. (mean over episodes)"
std::string metrics_text(const std::vector<rl::Metric>& metrics) {
  if (metrics.empty()) return "";
  std::string text = "\nMetrics of its own (env/NAME in metrics.jsonl):\n";
  for (const rl::Metric& metric : metrics) {
    text += concat("  ", align_left(metric.name, 12), " ", metric.help, metric.help.empty() ? "" : " ", "(mean over ",
                   unit_of(metric.over), ")\n");
  }
  return text;
}

std::string ending_of(const rl::Spec& spec, const std::string& origin, const std::vector<rl::EnvOption>& options) {
  return concat("  time limit   ", limit_of(spec), "\n  solved at    ", threshold_of(spec), "\n  from         ", origin,
                "\n", options_text(options), metrics_text(spec.metrics), presets_of(spec.id));
}

std::string description(const Listed& environment) {
  const auto& [whole, origin, options, agents] = environment;
  std::string text = whole.id + "\n";
  for (const auto& [name, spec] : agents) text += concat("agent ", name, "\n", spaces_of(spec));
  text += agents.empty() ? spaces_of(whole) : "all\n";
  if (agents.empty() && whole.agents > 1) text += concat("  agents       ", whole.agents, "\n");
  text += ending_of(whole, origin, options);
  return agents.empty() ? text + wrappers_text() : text;
}

template <typename Number>
void write_numbers(JsonWriter& json, const char* key, const std::vector<Number>& values) {
  json.key(key).begin_array();
  for (const Number value : values) json.value(value);
  json.end_array();
}

void write_action(JsonWriter& json, const rl::Spec& spec) {
  json.key("action").begin_object().key("type");
  if (const auto* box = std::get_if<rl::Box>(&spec.action)) {
    json.value("box");
    write_numbers(json, "low", box->low);
    write_numbers(json, "high", box->high);
  } else {
    json.value(std::holds_alternative<rl::Discrete>(spec.action) ? "discrete" : "multi_discrete");
    write_numbers(json, "n", rl::choices_of(spec.action));
  }
  json.key("masked").value(spec.has_action_mask).end_object();
}

void write_spaces(JsonWriter& json, const rl::Spec& spec) {
  json.key("observation").begin_array();
  for (const rl::Leaf& leaf : spec.observation) {
    json.begin_object().key("name").value(leaf.name).key("type").value(rl::name_of(leaf.type));
    write_numbers(json, "shape", leaf.shape);
    write_numbers(json, "low", leaf.low);
    write_numbers(json, "high", leaf.high);
    json.end_object();
  }
  json.end_array();
  write_action(json, spec);
}

void write_json(JsonWriter& json, const Listed& environment) {
  const auto& [whole, origin, options, agents] = environment;
  json.begin_object().key("name").value(whole.id);
  if (agents.empty()) {
    write_spaces(json, whole);
  } else {
    json.key("agent_specs").begin_array();
    for (const auto& [name, spec] : agents) {
      json.begin_object().key("name").value(name);
      write_spaces(json, spec);
      json.end_object();
    }
    json.end_array();
  }
  json.key("max_episode_steps").value(whole.max_episode_steps).key("agents").value(whole.agents);
  json.key("reward_threshold");
  whole.reward_threshold ? json.value(*whole.reward_threshold) : json.value(nullptr);
  json.key("options").begin_array();
  for (const rl::EnvOption& option : options) {
    json.begin_object().key("name").value(option.name).key("help").value(option.help);
    json.key("type").value(rl::type_of(option)).key("default").value(rl::text_of(option.standard));
    json.key("least").value(option.limits.least).key("most").value(option.limits.most);
    json.key("words").begin_array();
    for (const std::string& word : option.limits.words) json.value(word);
    json.end_array().end_object();
  }
  json.end_array().key("metrics").begin_array();
  for (const rl::Metric& metric : whole.metrics) {
    json.begin_object().key("name").value(metric.name).key("help").value(metric.help);
    json.key("over").value(unit_of(metric.over)).end_object();
  }
  json.end_array().key("from").value(origin).end_object();
}

// All of them, or the one that was named.
std::vector<Listed> listed(const rl::EnvRegistry& environments, const std::optional<std::string>& name) {
  std::vector<Listed> all;
  for (const rl::EnvEntry& entry : environments.entries()) all.push_back({entry.spec, entry.origin, entry.options});
  for (const rl::MultiAgentEntry& entry : environments.multi_agent_entries()) {
    Listed& its = all.emplace_back(Listed{rl::whole_spec(entry.spec), entry.origin, entry.options});
    for (std::size_t agent = 0; agent < entry.spec.agents.size(); ++agent)
      its.agents.emplace_back(entry.spec.agents[agent].name, rl::agent_spec(entry.spec, agent));
  }
  if (!name) return all;
  // spec() throws with the nearest name.
  if (environments.find_multi_agent(*name) == nullptr) (void)environments.spec(*name);
  std::erase_if(all, [&](const Listed& its) { return its.whole.id != *name; });
  return all;
}

std::string mujoco_text() {
  const std::string there = rl::mujoco_there_is();
  return concat("\n", there.empty() ? rl::why_no_mujoco() : there, "\n");
}

// Those of a Python, which is started for it.
ExitCode list_of_python(const EnvsCommand& command) {
  const rl::PythonList list = list_python(*command.name, command.python);
  if (command.output == Output::kJson) {
    JsonWriter json;
    write_list(json, list);
    std::cout << json.text() << "\n";
  } else {
    std::cout << printable(list_text(*command.name, list, command.python));
  }
  return ExitCode::kDone;
}

}  // namespace

ExitCode run_command(const EnvsCommand& command, rl::EnvRegistry environments) {
  for (const std::filesystem::path& plugin : command.plugins) environments.load_plugin(plugin);
  if (command.name && rl::is_python_list(*command.name)) return list_of_python(command);
  if (command.name && (environments.kind_of(*command.name) != nullptr || !command.env_options.empty()))
    environments.set_options(*command.name, env_option_texts(*command.name, command.env_options, command.python));
  const std::vector<Listed> all = listed(environments, command.name);
  if (command.output == Output::kJson) {
    JsonWriter json;
    json.begin_array();
    for (const Listed& environment : all) write_json(json, environment);
    std::cout << json.end_array().text() << "\n";
  } else if (command.name) {
    std::cout << printable(description(all.front()));
  } else {
    std::cout << printable(concat(list(all, false), "\n", list(all, true), mujoco_text(),
                                  kinds_text(environments.kinds(), command.python)));
  }
  return ExitCode::kDone;
}

}  // namespace tandem::app
