// The plan: load the plugins, play the environment (rl/env/check/env_check.h), and print what was seen and what was
// found, as text or as JSON. Only faults make the command fail.
#include <iostream>
#include <sstream>
#include <utility>

#include "tandem/app/commands/commands.h"
#include "tandem/app/run/quantity_text.h"
#include "tandem/app/train/python_choice.h"
#include "tandem/base/json_writer.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/check/env_check.h"

namespace tandem::app {
namespace {

const char* name_of(rl::Weight weight) {
  return weight == rl::Weight::kFault ? "fault" : weight == rl::Weight::kWarning ? "warning" : "advice";
}

std::string range_of(const rl::Moments& values) {
  if (values.constant()) return concat(values.least());
  return concat(values.least(), " to ", values.most(), ", mean ", values.mean(), ", deviation ", values.deviation());
}

// All elements of a leaf together.
std::string range_of(const rl::ObservedLeaf& leaf) {
  double least = leaf.elements.front().least(), most = leaf.elements.front().most();
  for (const rl::Moments& element : leaf.elements) {
    least = std::min(least, element.least());
    most = std::max(most, element.most());
  }
  return concat(least, " to ", most);
}

void print_agent(std::ostream& out, const rl::AgentSpec& agent, const rl::ObservedAgent& seen) {
  for (std::size_t l = 0; l < seen.leaves.size(); ++l)
    out << "  observation  " << rl::describe(agent.observation[l]) << ", seen " << range_of(seen.leaves[l]) << "\n";
  out << "  action       " << rl::describe(agent.action) << (agent.has_action_mask ? ", masked" : "") << "\n"
      << "  rewards      " << range_of(seen.reward) << "\n";
  if (seen.episode_return.count() > 0) out << "  returns      " << range_of(seen.episode_return) << "\n";
}

std::string text_of(const rl::EnvCheck& check) {
  std::ostringstream out;
  const rl::Moments& lengths = check.observed.lengths();
  out << check.spec.id << ": " << count_text(static_cast<double>(check.observed.agents()[0].reward.count()))
      << " random steps, " << count_text(check.steps_per_second) << " a second\n";
  for (std::size_t agent = 0; agent < check.spec.agents.size(); ++agent) {
    if (check.spec.agents.size() > 1) out << "agent " << check.spec.agents[agent].name << "\n";
    print_agent(out, check.spec.agents[agent], check.observed.agents()[agent]);
  }
  out << "  episodes     "
      << (lengths.count() == 0 ? "none ended" : concat(lengths.count(), " ended, of ", range_of(lengths), " steps"))
      << "\n\n";
  for (const rl::Finding& finding : check.findings)
    out << align_left(name_of(finding.weight), 9) << finding.kind << ": " << finding.text << "\n";
  if (check.findings.empty()) out << "nothing was found\n";
  return std::move(out).str();
}

void write(JsonWriter& json, const char* key, const rl::Moments& values) {
  json.key(key).begin_object().key("count").value(values.count());
  if (values.count() > 0) {
    json.key("mean").value(values.mean()).key("deviation").value(values.deviation());
    json.key("least").value(values.least()).key("most").value(values.most());
  }
  json.end_object();
}

std::string to_json(const rl::EnvCheck& check) {
  JsonWriter json;
  json.begin_object().key("env").value(check.spec.id).key("steps_per_s").value(check.steps_per_second);
  write(json, "episode_length", check.observed.lengths());
  json.key("agents").begin_array();
  for (std::size_t agent = 0; agent < check.spec.agents.size(); ++agent) {
    json.begin_object().key("name").value(check.spec.agents[agent].name);
    write(json, "reward", check.observed.agents()[agent].reward);
    write(json, "episode_return", check.observed.agents()[agent].episode_return);
    json.end_object();
  }
  json.end_array().key("findings").begin_array();
  for (const rl::Finding& finding : check.findings) {
    json.begin_object().key("weight").value(name_of(finding.weight));
    json.key("kind").value(finding.kind).key("text").value(finding.text).end_object();
  }
  return json.end_array().end_object().text();
}

}  // namespace

ExitCode run_command(const CheckCommand& command, rl::EnvRegistry environments) {
  for (const std::filesystem::path& plugin : command.plugins) environments.load_plugin(plugin);
  environments.set_options(command.env, env_option_texts(command.env, command.env_options, command.python));
  environments.set_wrappers(command.env, command.env_wrappers);
  const rl::EnvCheck check = rl::check_env(environments, command.env,
                                           {.steps = command.steps, .seed = static_cast<std::uint64_t>(command.seed)});
  if (command.output == Output::kJson) {
    std::cout << to_json(check) << "\n";
  } else {
    std::cout << printable(text_of(check));
  }
  return check.has(rl::Weight::kFault) ? ExitCode::kUserCanFixIt : ExitCode::kDone;
}

}  // namespace tandem::app
