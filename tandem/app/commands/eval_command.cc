// The plan: find the checkpoint, rebuild the run's options and environment from it, play, and print. With several
// agents the figures of each agent and of each policy follow those of the whole.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <numeric>

#include "tandem/app/commands/commands.h"
#include "tandem/app/commands/progress_line.h"
#include "tandem/app/commands/video_recording.h"
#include "tandem/app/run/quantity_text.h"
#include "tandem/app/train/build_run.h"
#include "tandem/app/train/evaluate.h"
#include "tandem/app/train/recorded_plugins.h"
#include "tandem/app/train/run_checkpoint.h"
#include "tandem/base/json_writer.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/python/python_envs.h"

namespace tandem::app {
namespace {

struct Spread {
  double mean = 0, deviation = 0, least = 0, most = 0;
};

// The deviation is of these episodes themselves, not an estimate for others: divided by n. There is at least one value.
template <typename Value>
Spread spread_of(const std::vector<Value>& values) {
  const auto count = static_cast<double>(values.size());
  Spread spread;
  spread.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const Value value : values) squares += std::pow(static_cast<double>(value) - spread.mean, 2);
  spread.deviation = std::sqrt(squares / count);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  spread.least = static_cast<double>(*least);
  spread.most = static_cast<double>(*most);
  return spread;
}

// The facts of an evaluation that are known before an episode is played.
struct Played {
  const EvalCommand& command;
  const model::Checkpoint& checkpoint;
  const std::string& env;
  std::optional<double> reward_threshold;
};

void add_summary(const Episodes& its, JsonWriter& json) {
  const Spread returns = spread_of(its.returns);
  json.key("return_mean").value(returns.mean).key("return_std").value(returns.deviation);
  json.key("return_min").value(returns.least).key("return_max").value(returns.most);
  json.key("length_mean").value(spread_of(its.lengths).mean);
}

// Every episode by itself, in the order of evaluation: for other statistics than ours.
void add_episodes(const Episodes& its, JsonWriter& json) {
  json.key("returns").begin_array();
  for (const double value : its.returns) json.value(value);
  json.end_array().key("lengths").begin_array();
  for (const std::int64_t value : its.lengths) json.value(value);
  json.end_array();
}

// A metric has no value where no episode ended.
std::string metrics_text(const std::vector<MetricValues>& metrics) {
  std::string text;
  for (const auto& [name, values] : metrics) {
    text += concat("\n  ", align_left(name, 6), "  ");
    if (values.empty()) {
      text += "unknown";
      continue;
    }
    const Spread its = spread_of(values);
    text += concat(value_text(its.mean), " +- ", value_text(its.deviation), "  (", value_text(its.least), " to ",
                   value_text(its.most), ")");
  }
  return text;
}

void add_metrics(const std::vector<MetricValues>& metrics, JsonWriter& json) {
  json.key("metrics").begin_object();
  for (const auto& [name, values] : metrics) {
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();  // null in JSON
    const Spread its = values.empty() ? Spread{kNone, kNone, kNone, kNone} : spread_of(values);
    json.key(name).begin_object().key("mean").value(its.mean).key("std").value(its.deviation);
    json.key("min").value(its.least).key("max").value(its.most);
    json.key("values").begin_array();
    for (const double value : values) json.value(value);
    json.end_array().end_object();
  }
  json.end_object();
}

// The episodes of all agents that a policy decides for, one agent after the other.
std::vector<AgentEvaluation> by_policy(const std::vector<AgentEvaluation>& agents) {
  std::vector<AgentEvaluation> policies;
  for (const AgentEvaluation& agent : agents) {
    auto its = std::ranges::find(policies, agent.policy, &AgentEvaluation::policy);
    if (its == policies.end())
      its = policies.insert(its, {.agent = {}, .policy = agent.policy, .played = {}});
    else
      its->agent += ", ";
    its->agent += agent.agent;
    const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(its->played.returns, agent.played.returns);
    append(its->played.lengths, agent.played.lengths);
  }
  return policies;
}

std::string json_of(const Evaluation& its, const Played& played, const VideoRecording& video) {
  JsonWriter json;
  json.begin_object().key("env").value(played.env).key("checkpoint").value(played.checkpoint.folder().string());
  json.key("updates").value(played.checkpoint.updates()).key("acting").value(word_of(played.command.acting));
  json.key("reward_threshold");
  played.reward_threshold ? json.value(*played.reward_threshold) : json.value(nullptr);
  json.key("episodes").value(its.whole.returns.size());
  json.key("cut_short").value(its.whole.cut_short);
  add_summary(its.whole, json);
  add_metrics(its.metrics, json);
  if (!its.agents.empty()) {
    json.key("agents").begin_array();
    for (const AgentEvaluation& agent : its.agents) {
      json.begin_object().key("agent").value(agent.agent).key("policy").value(agent.policy);
      add_summary(agent.played, json);
      add_episodes(agent.played, json);
      json.end_object();
    }
    json.end_array().key("policies").begin_array();
    for (const AgentEvaluation& policy : by_policy(its.agents)) {
      json.begin_object().key("policy").value(policy.policy);
      add_summary(policy.played, json);
      json.end_object();
    }
    json.end_array();
  }
  add_episodes(its.whole, json);
  video.add_to(json);
  return json.end_object().text();
}

std::string numbers(const Episodes& its) {
  const Spread returns = spread_of(its.returns), lengths = spread_of(its.lengths);
  return concat("  return  ", value_text(returns.mean), " +- ", value_text(returns.deviation), "  (",
                value_text(returns.least), " to ", value_text(returns.most), ")\n", "  length  ",
                value_text(lengths.mean), "  (", lengths.least, " to ", lengths.most, ")");
}

std::string cut_short(const Episodes& its, const Played& played) {
  if (its.cut_short == 0) return "";
  return concat(
      "\n  ", its.cut_short, " of ", its.returns.size(), " had not ended after ", played.command.most_steps,
      " steps and were cut short there: give the environment a time limit (max_episode_steps), or --max-steps");
}

std::string threshold(const Episodes& its, const Played& played) {
  if (!played.reward_threshold) return "";
  return concat("\n  ", spread_of(its.returns).mean >= *played.reward_threshold ? "solved" : "not solved",
                ": the threshold is ", *played.reward_threshold);
}

std::string line_of(const char* of, const std::string& name, const AgentEvaluation& its, const std::string& who) {
  const Spread returns = spread_of(its.played.returns);
  return concat("\n  ", of, " ", name, " (", who, ")  return  ", value_text(returns.mean), " +- ",
                value_text(returns.deviation), ", length  ", value_text(spread_of(its.played.lengths).mean));
}

std::string text_of(const Evaluation& its, const Played& played) {
  const bool is_one = its.agents.empty();
  std::string text = concat(played.env, ", ", its.whole.returns.size(), " episodes with ",
                            is_one ? "the policy" : "the policies", " after update ", played.checkpoint.updates(),
                            played.command.acting == rl::Acting::kSample ? ", actions drawn" : "", "\n",
                            is_one ? "" : "  summed over the agents\n", numbers(its.whole), metrics_text(its.metrics),
                            cut_short(its.whole, played), threshold(its.whole, played));
  for (const AgentEvaluation& agent : its.agents)
    text += line_of("agent", agent.agent, agent, "policy " + agent.policy);
  const std::vector<AgentEvaluation> policies = by_policy(its.agents);
  if (policies.size() == its.agents.size()) return text;  // an agent each
  for (const AgentEvaluation& policy : policies) text += line_of("policy", policy.policy, policy, policy.agent);
  return text;
}

// Those of the run stay where the command names none of the same name.
void take_env_options(const std::vector<std::string>& given, std::vector<std::string>& items) {
  for (const auto& option : option_texts(given))
    std::erase_if(items, [prefix = option.first + "="](const std::string& item) { return item.starts_with(prefix); });
  items.insert(items.end(), given.begin(), given.end());
}

// A Python environment draws itself where it was made for it.
void ask_for_pictures(TrainOptions& options) {
  if (!rl::draws_when_asked(options.env)) return;
  take_env_options({"render_mode=rgb_array"}, options.env_options);
}

}  // namespace

ExitCode run_command(const EvalCommand& command, const rl::EnvRegistry& environments) {
  VideoRecording video(command.video);
  const model::Checkpoint checkpoint = find_checkpoint(command.source);
  TrainOptions options = options_of(checkpoint);
  take_env_options(command.env_options, options.env_options);
  if (!command.video.path.empty()) ask_for_pictures(options);
  const rl::EnvRegistry known =
      environments_of_record(environments, record_of(checkpoint, options, "eval", command.source), command.code);
  const rl::MultiAgentEntry* several = known.find_multi_agent(options.env);
  const rl::Spec whole = several != nullptr ? rl::whole_spec(several->spec) : known.spec(options.env);
  const Played played{
      .command = command, .checkpoint = checkpoint, .env = options.env, .reward_threshold = whole.reward_threshold};
  ProgressLine progress;
  try {
    const Evaluation its = evaluate(parts_of(checkpoint), options, known,
                                    {.acting = command.acting,
                                     .episodes = command.episodes,
                                     .seed = static_cast<std::uint64_t>(command.seed),
                                     .most_steps = command.most_steps,
                                     .on_step =
                                         [&](std::int64_t episodes, std::int64_t steps) {
                                           video.check_stop();
                                           progress.show([&] {
                                             return concat(episodes, " of ", command.episodes, " episodes, ",
                                                           count_text(static_cast<double>(steps)), " steps");
                                           });
                                         },
                                     .shown = video.shown(whole.render_fps)});
    progress.end();
    std::vector<std::string> agents;
    for (const AgentEvaluation& agent : its.agents) agents.push_back(agent.agent);
    video.write(progress, whole.render_fps, std::move(agents));
    std::cout << (command.output == Output::kJson ? json_of(its, played, video)
                                                  : printable(text_of(its, played) + video.text()))
              << "\n";
  } catch (const StoppedBySignal&) {
    progress.end();
    std::cerr << "tandem: stopped; no video was written\n";
    return ExitCode::kStopped;
  }
  return ExitCode::kDone;
}

}  // namespace tandem::app
