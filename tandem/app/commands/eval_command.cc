#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>

#include "tandem/app/commands/commands.h"
#include "tandem/app/commands/policy_source.h"
#include "tandem/app/run/quantity_text.h"
#include "tandem/app/train/evaluate.h"
#include "tandem/base/json_writer.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

struct Spread {
  double mean = 0, deviation = 0, least = 0, most = 0;
};

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

std::string json_of(const Evaluation& played, const model::Checkpoint& checkpoint, const rl::Spec& spec) {
  const Spread returns = spread_of(played.returns);
  JsonWriter json;
  json.begin_object().key("env").value(spec.id).key("checkpoint").value(checkpoint.folder().string());
  json.key("updates").value(checkpoint.updates()).key("episodes").value(played.returns.size());
  json.key("return_mean").value(returns.mean).key("return_std").value(returns.deviation);
  json.key("return_min").value(returns.least).key("return_max").value(returns.most);
  json.key("length_mean").value(spread_of(played.lengths).mean);
  json.key("reward_threshold");
  spec.reward_threshold ? json.value(*spec.reward_threshold) : json.value(nullptr);
  json.key("returns").begin_array();
  for (const double value : played.returns) json.value(value);
  json.end_array().key("lengths").begin_array();
  for (const std::int64_t value : played.lengths) json.value(value);
  json.end_array().end_object();
  return json.text();
}

std::string text_of(const Evaluation& played, const model::Checkpoint& checkpoint, const rl::Spec& spec) {
  const Spread returns = spread_of(played.returns), lengths = spread_of(played.lengths);
  std::string text =
      concat(spec.id, ", ", played.returns.size(), " episodes with the policy after update ", checkpoint.updates(),
             "\n", "  return  ", value_text(returns.mean), " +- ", value_text(returns.deviation), "  (",
             value_text(returns.least), " to ", value_text(returns.most), ")\n", "  length  ", value_text(lengths.mean),
             "  (", lengths.least, " to ", lengths.most, ")");
  if (spec.reward_threshold) {
    text += concat("\n  ", returns.mean >= *spec.reward_threshold ? "solved" : "not solved", ": the threshold is ",
                   *spec.reward_threshold);
  }
  return text;
}

}  // namespace

ExitCode run_eval(const EvalCommand& command, const rl::EnvRegistry& environments) {
  const model::Checkpoint checkpoint = find_checkpoint(command.source);
  const TrainOptions options = options_of(checkpoint);
  const rl::EnvRegistry known = environments_of(options, environments, command.plugins);
  const Evaluation played =
      evaluate(checkpoint, options, known, command.episodes, static_cast<std::uint64_t>(command.seed));
  const rl::Spec& spec = known.spec(options.env);
  std::cout << (command.output == Output::kJson ? json_of(played, checkpoint, spec) : text_of(played, checkpoint, spec))
            << "\n";
  return ExitCode::kDone;
}

}  // namespace tandem::app
