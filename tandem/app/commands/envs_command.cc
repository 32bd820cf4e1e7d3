// The plan: load the plugins, keep the environment that was named or all of them, and print them as JSON, as one
// description or as two tables. Environments of one and of several agents are listed apart, since the latter have a
// space for each agent.
#include <algorithm>
#include <array>
#include <iostream>

#include "tandem/app/commands/commands.h"
#include "tandem/app/config/presets.h"
#include "tandem/base/json_writer.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

std::string observation_of(const rl::Spec& spec) {
  std::string text;
  for (const rl::Leaf& leaf : spec.observation) text += (text.empty() ? "" : ", ") + rl::describe(leaf);
  return text;
}

std::string limit_of(const rl::Spec& spec) {
  return spec.max_episode_steps == 0 ? "none" : std::to_string(spec.max_episode_steps);
}

std::string threshold_of(const rl::Spec& spec) {
  return spec.reward_threshold ? concat(*spec.reward_threshold) : "none";
}

using Row = std::array<std::string, 6>;

// Columns are as wide as their widest text, two spaces apart, without blanks at the ends of lines.
std::string table_of(const std::vector<Row>& rows) {
  std::array<std::size_t, 6> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string list(const std::vector<rl::EnvEntry>& entries) {
  std::vector<Row> rows{{"name", "observation", "action", "time limit", "solved at", "from"}};
  for (const rl::EnvEntry& entry : entries) {
    const rl::Spec& spec = entry.spec;
    rows.push_back(
        {spec.id, observation_of(spec), rl::describe(spec.action), limit_of(spec), threshold_of(spec), entry.origin});
  }
  return table_of(rows);
}

// The agents' own observations and actions are in each one's description.
std::string list(const std::vector<rl::MultiAgentEntry>& entries) {
  std::vector<Row> rows{{"several agents", "agents", "", "time limit", "solved at", "from"}};
  for (const rl::MultiAgentEntry& entry : entries) {
    const rl::Spec whole = rl::whole_spec(entry.spec);
    std::string agents;
    for (const rl::AgentSpec& agent : entry.spec.agents) agents += concat(agents.empty() ? "" : ", ", agent.name);
    rows.push_back({whole.id, agents, "", limit_of(whole), threshold_of(whole), entry.origin});
  }
  return table_of(rows);
}

// A leaf without bounds has an empty `low`.
std::string bounds_of(const rl::Leaf& leaf) {
  if (leaf.low.empty()) return "";
  std::string text;
  for (std::size_t i = 0; i < leaf.low.size(); ++i)
    text += concat(i == 0 ? "" : ", ", leaf.low[i], " to ", leaf.high[i]);
  return concat("    within ", text, "\n");
}

// Describes the observations and actions of an agent.
std::string spaces_of(const rl::Spec& spec) {
  std::string text;
  for (const rl::Leaf& leaf : spec.observation)
    text += concat("  observation  ", rl::describe(leaf), "\n", bounds_of(leaf));
  return text + concat("  action       ", rl::describe(spec.action), spec.has_action_mask ? ", masked" : "", "\n");
}

std::string ending_of(const rl::Spec& spec, const std::string& origin) {
  std::string text = concat("  time limit   ", limit_of(spec), "\n  solved at    ", threshold_of(spec),
                            "\n  from         ", origin, "\n");
  // Only the settings for the default algorithm are shown.
  const Preset* preset = find_preset("ppo", spec.id);
  if (preset == nullptr) return text + "  no settings are shipped for it\n";
  return concat(text, "\nShipped settings (", preset->file, "):\n", preset->text);
}

std::string description(const rl::EnvEntry& entry) {
  const rl::Spec& spec = entry.spec;
  const std::string agents = spec.agents > 1 ? concat("  agents       ", spec.agents, "\n") : "";
  return concat(spec.id, "\n", spaces_of(spec), agents, ending_of(spec, entry.origin));
}

std::string description(const rl::MultiAgentEntry& entry) {
  std::string text = entry.spec.id + "\n";
  for (std::size_t agent = 0; agent < entry.spec.agents.size(); ++agent)
    text += concat("agent ", entry.spec.agents[agent].name, "\n", spaces_of(rl::agent_spec(entry.spec, agent)));
  return concat(text, "all\n", ending_of(rl::whole_spec(entry.spec), entry.origin));
}

void write_numbers(JsonWriter& json, const std::vector<double>& values) {
  json.begin_array();
  for (const double value : values) json.value(value);
  json.end_array();
}

void write_spaces(JsonWriter& json, const rl::Spec& spec) {
  json.key("observation").begin_array();
  for (const rl::Leaf& leaf : spec.observation) {
    json.begin_object()
        .key("name")
        .value(leaf.name)
        .key("type")
        .value(rl::name_of(leaf.type))
        .key("shape")
        .begin_array();
    for (const std::int64_t size : leaf.shape) json.value(size);
    json.end_array().key("low");
    write_numbers(json, leaf.low);
    json.key("high");
    write_numbers(json, leaf.high);
    json.end_object();
  }
  json.end_array().key("action").value(rl::describe(spec.action));
}

void write_ending(JsonWriter& json, const rl::Spec& spec, const std::string& origin) {
  json.key("max_episode_steps").value(spec.max_episode_steps).key("agents").value(spec.agents);
  json.key("reward_threshold");
  spec.reward_threshold ? json.value(*spec.reward_threshold) : json.value(nullptr);
  json.key("from").value(origin).end_object();
}

void write_json(JsonWriter& json, const rl::EnvEntry& entry) {
  json.begin_object().key("name").value(entry.spec.id);
  write_spaces(json, entry.spec);
  write_ending(json, entry.spec, entry.origin);
}

void write_json(JsonWriter& json, const rl::MultiAgentEntry& entry) {
  json.begin_object().key("name").value(entry.spec.id).key("agent_specs").begin_array();
  for (std::size_t agent = 0; agent < entry.spec.agents.size(); ++agent) {
    json.begin_object().key("name").value(entry.spec.agents[agent].name);
    write_spaces(json, rl::agent_spec(entry.spec, agent));
    json.end_object();
  }
  json.end_array();
  write_ending(json, rl::whole_spec(entry.spec), entry.origin);
}

}  // namespace

ExitCode run_envs(const EnvsCommand& command, rl::EnvRegistry environments) {
  for (const std::filesystem::path& plugin : command.plugins) environments.load_plugin(plugin);
  std::vector<rl::EnvEntry> entries = environments.entries();
  std::vector<rl::MultiAgentEntry> several = environments.multi_agent_entries();
  if (command.name) {
    // spec() throws with the nearest name.
    if (environments.find_multi_agent(*command.name) == nullptr) (void)environments.spec(*command.name);
    std::erase_if(entries, [&](const rl::EnvEntry& entry) { return entry.spec.id != *command.name; });
    std::erase_if(several, [&](const rl::MultiAgentEntry& entry) { return entry.spec.id != *command.name; });
  }
  if (command.output == Output::kJson) {
    JsonWriter json;
    json.begin_array();
    for (const rl::EnvEntry& entry : entries) write_json(json, entry);
    for (const rl::MultiAgentEntry& entry : several) write_json(json, entry);
    std::cout << json.end_array().text() << "\n";
  } else if (command.name) {
    std::cout << (entries.empty() ? description(several.front()) : description(entries.front()));
  } else {
    std::cout << list(entries) << "\n" << list(several);
  }
  return ExitCode::kDone;
}

}  // namespace tandem::app
