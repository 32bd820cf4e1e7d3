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

std::string bounds_of(const rl::Leaf& leaf) {
  if (leaf.low.empty()) return "";
  std::string text;
  for (std::size_t i = 0; i < leaf.low.size(); ++i)
    text += concat(i == 0 ? "" : ", ", leaf.low[i], " to ", leaf.high[i]);
  return concat("    within ", text, "\n");
}

std::string description(const rl::EnvEntry& entry) {
  const rl::Spec& spec = entry.spec;
  std::string text = spec.id + "\n";
  for (const rl::Leaf& leaf : spec.observation)
    text += concat("  observation  ", rl::describe(leaf), "\n", bounds_of(leaf));
  text += concat("  action       ", rl::describe(spec.action), spec.has_action_mask ? ", masked" : "", "\n");
  if (spec.agents > 1) text += concat("  agents       ", spec.agents, "\n");
  text += concat("  time limit   ", limit_of(spec), "\n  solved at    ", threshold_of(spec), "\n  from         ",
                 entry.origin, "\n");
  const Preset* preset = find_preset("ppo", spec.id);
  if (preset == nullptr) return text + "  no settings are shipped for it\n";
  return concat(text, "\nShipped settings (", preset->file, "):\n", preset->text);
}

void write_numbers(JsonWriter& json, const std::vector<double>& values) {
  json.begin_array();
  for (const double value : values) json.value(value);
  json.end_array();
}

void write_json(JsonWriter& json, const rl::EnvEntry& entry) {
  const rl::Spec& spec = entry.spec;
  json.begin_object().key("name").value(spec.id).key("observation").begin_array();
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
  json.key("max_episode_steps").value(spec.max_episode_steps).key("agents").value(spec.agents);
  json.key("reward_threshold");
  spec.reward_threshold ? json.value(*spec.reward_threshold) : json.value(nullptr);
  json.key("from").value(entry.origin).end_object();
}

}  // namespace

ExitCode run_envs(const EnvsCommand& command, rl::EnvRegistry environments) {
  for (const std::filesystem::path& plugin : command.plugins) environments.load_plugin(plugin);
  std::vector<rl::EnvEntry> entries = environments.entries();
  if (command.name) {
    (void)environments.spec(*command.name);  // throws with the nearest name
    std::erase_if(entries, [&](const rl::EnvEntry& entry) { return entry.spec.id != *command.name; });
  }
  if (command.output == Output::kJson) {
    JsonWriter json;
    json.begin_array();
    for (const rl::EnvEntry& entry : entries) write_json(json, entry);
    std::cout << json.end_array().text() << "\n";
  } else {
    std::cout << (command.name ? description(entries.front()) : list(entries));
  }
  return ExitCode::kDone;
}

}  // namespace tandem::app
