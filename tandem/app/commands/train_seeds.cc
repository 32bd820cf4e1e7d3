#include "tandem/app/commands/train_seeds.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <iostream>
#include <string_view>

#include "tandem/app/commands/run_session.h"
#include "tandem/app/plot/run_picture.h"
#include "tandem/app/run/mean_interval.h"
#include "tandem/app/run/program_name.h"
#include "tandem/app/run/quantity_text.h"
#include "tandem/app/run/seed_folders.h"
#include "tandem/app/run/stop_signals.h"
#include "tandem/app/run/update_metrics.h"
#include "tandem/app/train/build_run.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/json_writer.h"
#include "tandem/base/text.h"
#include "tandem/comm/store/launcher_environment.h"

namespace tandem::app {
namespace {

// What came of a run, as its summary.json says.
struct SeedResult {
  std::int64_t seed = 0;
  double episode_return = NAN;
  std::vector<PolicyReturn> policies = {};  // of opposed_returns()
  std::optional<double> best_evaluation = {}, solved_at = {};
  double env_steps_per_s = 0;
};

void require_no_ranks() {
  const comm::LauncherEnvironment me = comm::launcher_environment();
  if (me.world_size == 1) return;
  throw ConfigError(concat("--seeds: this process is rank ", me.rank, " of ", me.world_size,
                           "; start the command without a launcher, with --ranks ", me.world_size));
}

bool is_of_seeds(std::string_view key) { return key == "seed" || key == "run_dir" || key == "resume"; }

// Each rank that a run starts reads the command line anew, so words that differ from run to run are left out of it.
std::vector<std::string> without_words_of_seeds(const std::vector<std::string>& arguments) {
  constexpr std::array<std::string_view, 4> kFlags{"--seeds", "--seed", "--run-dir", "--resume"};
  std::vector<std::string> left;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string name = arguments[i].substr(0, arguments[i].find('='));
    if (std::ranges::find(kFlags, name) == kFlags.end())
      left.push_back(arguments[i]);
    else if (name == arguments[i])
      ++i;  // and its value
  }
  return left;
}

TrainCommand of_seed(const TrainCommand& command, std::int64_t seed, const std::filesystem::path& folder) {
  TrainCommand one = command;
  one.seeds = 1;
  std::erase_if(one.sources.flags, [](const Setting& flag) { return is_of_seeds(flag.key); });
  one.ranks.arguments = without_words_of_seeds(command.ranks.arguments);
  const auto set = [&one](const char* key, const char* flag, const std::string& text) {
    one.sources.flags.push_back({key, RawValue::of_text(text), {Layer::kFlag, flag}});
    one.ranks.arguments.insert(one.ranks.arguments.end(), {flag, text});
  };
  set("seed", "--seed", concat(seed));
  set("run_dir", "--run-dir", seed_run(folder, seed).folder.string());
  set("resume", "--resume", "auto");
  return one;
}

// Settings that leave the result as it is: which devices, what a run does when something fails, what it keeps.
bool is_of_result(const Option& option) {
  constexpr std::array<std::string_view, 11> kElse{
      "seed",         "devices",      "gradient_check",       "survivors",     "deadline_seconds",
      "env_restarts", "isolate_envs", "env_deadline_seconds", "env_memory_mb", "env_workers",
      "python"};
  const std::string& key = option.key();
  return option.lifetime() != Lifetime::kCall && std::ranges::find(kElse, key) == kElse.end() &&
         !key.starts_with("log.") && !key.starts_with("checkpoint.");
}

// A mean over runs of different settings says nothing. So a run that lies in the folder must have been made with the
// settings of the others to come, also with those that a resume may change. Throws ConfigError naming what differs.
void require_same_settings(const RunPaths& paths, const TrainOptions& asked, bool are_instructions_asked) {
  if (!holds_run(paths.folder)) return;
  TrainOptions before = read_recorded(paths.config()), now = asked;
  if (!are_instructions_asked) now.instructions = before.instructions;  // a run keeps its own on any machine
  const OptionTable was = option_table(before), is = option_table(now);
  std::vector<std::string> faults;
  const auto compare = [&](const Option& option) {
    const auto text_in = [&option](const OptionTable& table) -> std::optional<std::string> {
      const Option* its = table.find(option.key());
      if (its == nullptr) return "no value of its own";
      return table.has_effect(*its) ? std::optional(its->text()) : std::nullopt;
    };
    const std::optional<std::string> then = text_in(was), here = text_in(is);
    // Where one has no effect, the option that decides about it differs, too.
    if (!is_of_result(option) || !then || !here || *then == *here) return;
    faults.push_back(concat(option.key(), " = ", *here, ": ", paths.folder.string(), " was trained with ", *then,
                            "; give its settings again, or name another folder with --run-dir"));
  };
  for (const auto& option : is.options()) compare(*option);
  for (const auto& option : was.options()) {
    if (is.find(option->key()) == nullptr) compare(*option);
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
}

std::optional<double> number_of(const JsonValue& summary, std::string_view key) {
  const JsonValue* value = summary.find(key);
  return value != nullptr && value->is_number() ? std::optional(value->as_double()) : std::nullopt;
}

SeedResult result_of(std::int64_t seed, const RunPaths& paths) {
  const JsonValue summary = read_json_file(paths.summary());
  Record figures;
  for (const auto& [name, value] : summary.as_object())
    if (value.is_number()) figures.add(name, value.as_double());
  const std::optional<double> episode_return = number_of(summary, "episode_return_mean");
  return {.seed = seed,
          .episode_return = episode_return.value_or(NAN),
          .policies = opposed_returns(episode_return, figures),
          .best_evaluation = number_of(summary, "eval_return_best"),
          .solved_at = number_of(summary, "solved_at_env_steps"),
          .env_steps_per_s = number_of(summary, "env_steps_per_s").value_or(0)};
}

// A return of each seed: the run's, or that of one of its policies.
struct ReturnColumn {
  std::string policy;  // empty: the run's
  std::vector<double> returns = {};

  [[nodiscard]] MeanInterval interval() const { return mean_interval(returns); }
};

ReturnColumn whole_return(const std::vector<SeedResult>& results) {
  ReturnColumn column;
  for (const SeedResult& result : results) column.returns.push_back(result.episode_return);
  return column;
}

// A column for each policy where these play against each other in all runs; else empty.
std::vector<ReturnColumn> policy_returns(const std::vector<SeedResult>& results) {
  std::vector<ReturnColumn> columns;
  for (const PolicyReturn& its : results.front().policies) columns.push_back({.policy = its.policy});
  for (const SeedResult& result : results) {
    if (result.policies.size() != columns.size()) return {};
    for (std::size_t i = 0; i < columns.size(); ++i) columns[i].returns.push_back(result.policies[i].mean);
  }
  return columns;
}

std::string to_text(const std::vector<SeedResult>& results) {
  const auto cell = [](const std::optional<double>& value, const auto& text) {
    return align_right(value ? text(*value) : "-", 12);
  };
  std::vector<ReturnColumn> columns = policy_returns(results);
  if (columns.empty()) columns.push_back(whole_return(results));
  const auto width_of = [](const ReturnColumn& column) { return std::max<std::size_t>(12, column.policy.size() + 2); };
  std::string text = align_right("seed", 6);
  for (const ReturnColumn& column : columns)
    text += align_right(column.policy.empty() ? "return" : column.policy, width_of(column));
  text += concat(align_right("best eval", 12), align_right("solved at", 12), align_right("steps/s", 12), "\n");
  for (std::size_t i = 0; i < results.size(); ++i) {
    text += align_right(concat(results[i].seed), 6);
    for (const ReturnColumn& column : columns) text += align_right(value_text(column.returns[i]), width_of(column));
    text += concat(cell(results[i].best_evaluation, value_text), cell(results[i].solved_at, count_text),
                   align_right(count_text(results[i].env_steps_per_s), 12), "\n");
  }
  for (const ReturnColumn& column : columns) {
    const MeanInterval of = column.interval();
    text += concat("mean return ", column.policy.empty() ? "" : concat("of ", column.policy, " "), value_text(of.mean),
                   ", 95 % confidence interval ", value_text(of.mean - of.half), " to ", value_text(of.mean + of.half),
                   ", standard deviation ", value_text(of.deviation), "\n");
  }
  return text;
}

void write_interval(JsonWriter& json, const ReturnColumn& column) {
  const std::string prefix = column.policy.empty() ? "" : concat("policy/", column.policy, "/");
  const MeanInterval of = column.interval();
  json.key(prefix + "episode_return_mean").value(of.mean).key(prefix + "confidence_low").value(of.mean - of.half);
  json.key(prefix + "confidence_high").value(of.mean + of.half).key(prefix + "standard_deviation").value(of.deviation);
}

// As of a single run: what was learned is saved, and a picture that cannot be drawn is not worth a failure.
void draw(const std::vector<PlottedRun>& runs, const std::filesystem::path& file) {
  try {
    write_charts(charts_of(runs), file);
  } catch (const std::exception& error) {
    std::cerr << concat("tandem: warning: the picture of the runs could not be drawn: ", printable(error.what()), "\n");
  }
}

std::string to_json(const std::vector<SeedResult>& results) {
  JsonWriter json;
  json.begin_object();
  write_interval(json, whole_return(results));
  for (const ReturnColumn& column : policy_returns(results)) write_interval(json, column);
  json.key("seeds").begin_array();
  for (const SeedResult& result : results) {
    json.begin_object().key("seed").value(result.seed).key("episode_return_mean").value(result.episode_return);
    for (const PolicyReturn& its : result.policies)
      json.key(concat("policy/", its.policy, "/episode_return_mean")).value(its.mean);
    if (result.best_evaluation) json.key("eval_return_best").value(*result.best_evaluation);
    if (result.solved_at) json.key("solved_at_env_steps").value(*result.solved_at);
    json.key("env_steps_per_s").value(result.env_steps_per_s).end_object();
  }
  return json.end_array().end_object().text() + "\n";
}

// Whether a signal came in the last update of a run, which has finished all the same. A launcher that started ranks
// for the run says so by its exit code.
bool was_asked_to_stop(const TrainCommand& command) {
  return command.ranks.count.value_or(1) == 1 && last_stop_signal() != 0;
}

// A run that stops does it, too.
void requeue_if_asked() {
  if (last_stop_signal() == SIGUSR1 && requeue_job() == Requeued::kNotUnderSlurm)
    std::cerr << "tandem: warning: SIGUSR1 asks for the job to be queued again, and there is none: SLURM_JOB_ID is not "
                 "set\n";
}

}  // namespace

ExitCode train_seeds(const TrainCommand& command, const rl::EnvRegistry& environments,
                     const std::function<ExitCode(const TrainCommand&)>& train) {
  require_no_ranks();
  // All runs have the same faults, so they are told before the first one begins.
  const Configuration first =
      configure(command.sources, surroundings_of(environments, command.ranks.count.value_or(1)));
  const TrainOptions& options = first.options;
  const std::filesystem::path folder =
      options.run_dir ? *options.run_dir
                      : new_run_path("runs", options.env, options.algo, std::chrono::system_clock::now());
  if (holds_run(folder)) {
    throw ConfigError(
        concat("--seeds: ", folder.string(), " holds a single run; name another folder for several with --run-dir"));
  }
  const bool are_instructions_asked = asked_for(command.sources).instructions.has_value();
  for (std::int64_t i = 0; i < command.seeds; ++i)
    require_same_settings(seed_run(folder, options.seed + i), options, are_instructions_asked);
  std::vector<SeedResult> results;
  std::vector<PlottedRun> runs;
  const std::optional<double> threshold = threshold_of(environments, options);
  const std::filesystem::path start = std::filesystem::current_path();
  for (std::int64_t i = 0; i < command.seeds; ++i) {
    std::filesystem::current_path(start);  // an environment of the run before may have left it
    const std::int64_t seed = options.seed + i;
    const RunPaths paths = seed_run(folder, seed);
    if (!options.quiet)
      std::cout << "seed " << seed << ", run " << i + 1 << " of " << command.seeds << '\n' << std::flush;
    ExitCode code = train(of_seed(command, seed, folder));
    const bool is_between = code == ExitCode::kDone && i + 1 < command.seeds && was_asked_to_stop(command);
    if (is_between) code = ExitCode::kStopped;
    if (code != ExitCode::kDone) {
      if (!options.quiet)
        std::cout << "stopped " << (is_between ? "after" : "in") << " run " << i + 1 << " of " << command.seeds
                  << "; the same command with --run-dir " << printable(folder.string()) << " goes on\n";
      if (is_between) requeue_if_asked();
      return code;
    }
    results.push_back(result_of(seed, paths));
    runs.push_back({paths, threshold});
  }
  std::filesystem::current_path(start);
  write_file(folder / "seeds.json", to_json(results));
  draw(runs, folder / "curve.png");
  if (options.quiet) return ExitCode::kDone;
  std::cout << printable(concat(to_text(results), "in ", folder.string()))
            << ": seeds.json, curve.png and a folder for each run\n";
  return ExitCode::kDone;
}

}  // namespace tandem::app
