// A run writes in this order: begin() cuts files back to the update that the run goes on from; account() turns a report
// into the numbers of a line; write_line() writes it once no rank can go back behind the update; checkpoint() when one
// is due; finish() or failed() writes the summary and draws the picture. The order within begin() matters: lines are
// cut before the kept line is written, and sinks are opened after both.
#include "tandem/app/train/run_record.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <sstream>

#include "tandem/app/config/algorithm.h"
#include "tandem/app/plot/run_picture.h"
#include "tandem/app/run/quantity_text.h"
#include "tandem/app/run/run_status.h"
#include "tandem/app/train/build_run.h"
#include "tandem/app/train/evaluate.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/clock.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/process.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/cores.h"
#include "tandem/device/device_set.h"
#include "tandem/metrics/jsonl_sink.h"
#include "tandem/metrics/sink.h"
#include "tandem/metrics/tensorboard_sink.h"
#include "tandem/rl/algo/training_run.h"

namespace tandem::app {
namespace {

template <typename Value>
double mean_of(const std::vector<Value>& values) {
  return static_cast<double>(std::reduce(values.begin(), values.end(), Value{})) / static_cast<double>(values.size());
}

// Of the one that is kept; nothing where none was evaluated.
std::optional<double> best_score(const model::CheckpointStore& best) {
  const std::vector<std::int64_t> updates = best.list();
  return updates.empty() ? std::nullopt : best.open(updates.back()).info().score;
}

OverSteps over_steps(const sync::StepSizes& sizes, sync::OverSteps sync::StepSizes::*figure) {
  return {.min = (sizes.*figure).least, .mean = sizes.mean_of(figure), .max = (sizes.*figure).most};
}

}  // namespace

RunRecord::RunRecord(const Configuration& configuration, const rl::TrainingRun& run, const TrainPlace& place)
    : options_(configuration.options),
      config_(configuration.yaml),
      run_(run),
      place_(place),
      checkpoints_(configuration, run, place.log, place.folder),
      best_(place.folder.paths().best(), {.last = 1}) {}

void RunRecord::resumed(const RunProgress& progress, const std::string& remark, const LineSchedule& lines) {
  progress_ = progress;
  earlier_lines_ = lines;
  place_.log.info(concat("goes on after update ", run_.updates(), ", environment step ", run_.env_steps()));
  if (!remark.empty())
    place_.log.warning(concat("from here on the numbers may differ from an uninterrupted run's: ", remark));
}

void RunRecord::begin() {
  for (const auto& path : {place_.folder.paths().metrics(), place_.folder.paths().rollouts()})
    truncate_jsonl(path, "updates", run_.updates());
  // Lines may be rarer than updates, so this can lie before the run's last update without a loss.
  written_update_ = last_update(place_.folder.paths().metrics()).value_or(0);
  const bool was_late = write_kept_line();
  warn_of_lost_lines();
  // Should there be no update left to make, these are the last values.
  last_ = last_known();
  checkpoints_.begin();
  best_.discard_after(run_.updates());
  first_step_ = run_.env_steps();
  sinks_.push_back(std::make_unique<JsonlSink>(place_.folder.paths().metrics()));
  if (options_.log.tensorboard) {
    sinks_.push_back(std::make_unique<TensorBoardSink>(place_.folder.paths().place(), "env_steps", first_step_));
    if (was_late) sinks_.back()->write(to_record(last_));
  }
  last_.updates = run_.updates();
  last_.env_steps = evaluated_step_ = run_.env_steps();
  if (options_.eval.every_steps) best_return_ = best_score(best_);
  const std::string batch = algorithm_of(options_).describe_batch(options_, run_);
  place_.log.info(concat(options_.env, ": ", counted(run_.replicas(), "replica"), " on ", options_.devices,
                         run_.ranks().size() > 1 ? concat(" of each of ", run_.ranks().size(), " ranks") : "", ", ",
                         counted(run_.shards(), "shard"), "; ", batch));
  const UsableCores cores = usable_cores();
  if (replica_devices(options_, cores.whole()).size() < device::parse_device_set(options_.devices).size())
    place_.log.info(concat("devices: ", options_.devices, " is one replica here, since this process may use ",
                           cores.describe(), ": the same bits, sooner"));
  if (run_.replicas() > 1) place_.progress.say(concat(run_.replicas(), " replicas: ", batch));
  place_.log.info(run_.gradients_by());
  const std::string why = run_.why_numbers_differ();
  if (!why.empty()) {
    place_.log.info(concat("Another run with the same seed has other numbers, and so has a resumed one: ", why));
  }
  place_.progress.start({.total_steps = options_.total_steps, .first_step = first_step_});
  started_ = Clock::now();
}

UpdateMetrics RunRecord::last_known() const {
  if (place_.kept != nullptr && !place_.kept->line.empty()) return from_line(read_json(place_.kept->line));
  return read_last(place_.folder.paths().metrics(), run_.updates()).value_or(UpdateMetrics{});
}

// A power cut can lose lines that are older than the checkpoint.
void RunRecord::warn_of_lost_lines() {
  if (!earlier_lines_ || written_update_ >= earlier_lines_->last_until(run_.updates())) return;
  place_.log.warning(concat(place_.folder.paths().metrics().string(), " ends with update ", written_update_,
                            " and the run goes on after update ", run_.updates(),
                            ": lines between them are lost, and the curve lacks them; the training does not"));
}

void RunRecord::write_metrics() {
  for (const auto& sink : sinks_) sink->write(to_record(last_));
  written_update_ = last_.updates;
}

// Writes the line of the kept update unless the leader before this one wrote it or no line was due. Returns whether it
// wrote one, since sinks that are opened later have to get it, too.
bool RunRecord::write_kept_line() {
  if (place_.kept == nullptr || place_.kept->line.empty() || written_update_ >= run_.updates()) return false;
  if (!has_line(run_.updates())) return false;
  AppendFile(place_.folder.paths().metrics()).append(place_.kept->line + "\n");
  written_update_ = run_.updates();
  return true;
}

bool RunRecord::has_line(std::int64_t update) const { return options_.log.lines().has_line(update); }

std::string RunRecord::line() const { return to_json(to_record(last_)); }

void RunRecord::write_line() {
  if (has_line(last_.updates) || evaluated_update_ == last_.updates) write_metrics();
}

bool RunRecord::evaluation_due(bool is_last) const {
  const std::optional<std::int64_t> every = options_.eval.every_steps;
  if (!every || evaluated_update_ == run_.updates()) return false;
  return is_last || run_.env_steps() / *every > evaluated_step_ / *every;
}

void RunRecord::evaluate(const learner::StateParts& policies, const rl::EnvRegistry& environments) {
  if (policies.empty())
    throw ConfigError(concat("eval.every_steps: the policies of ", options_.algo, " cannot be played while it trains"));
  const EvalSettings& eval = options_.eval;
  const Clock::time_point start = Clock::now();
  const Evaluation its = app::evaluate(
      [&policies](const std::string& name) { return learner::part_of(policies, name); }, options_, environments,
      {.acting = eval.deterministic ? rl::Acting::kMode : rl::Acting::kSample,
       .episodes = eval.episodes,
       .seed = static_cast<std::uint64_t>(options_.seed),
       .most_steps = eval.max_steps,
       .progress = std::min(1.0, static_cast<double>(run_.env_steps()) / static_cast<double>(options_.total_steps))});
  const double mean = mean_of(its.whole.returns);
  evaluated_update_ = run_.updates();
  evaluated_step_ = run_.env_steps();
  const bool is_best = !best_return_ || mean > *best_return_;
  if (is_best) {
    best_return_ = mean;
    place_.folder.require_in_place();
    // What playing needs, and no more: a whole checkpoint could make the run learn from what is on its way.
    save_run(best_, run_.updates(), {.parts = policies, .kept = {}},
             describe(run_, options_, progress_, config_, mean));
  }
  last_.figures.add("eval_return_mean", mean);
  last_.figures.add("eval_length_mean", mean_of(its.whole.lengths));
  last_.figures.add("eval_return_best", *best_return_);
  for (const auto& [name, values] : its.metrics)
    last_.figures.add(concat("eval_", rl::kEnvFigures, name),
                      values.empty() ? std::nullopt : std::optional(mean_of(values)));
  last_.figures.add("eval_ms", 1e3 * seconds_since(start));
  std::string line =
      concat("evaluation after ", count_text(static_cast<double>(run_.env_steps())), " steps: return ",
             value_text(mean), " over ", counted(eval.episodes, "episode"), is_best ? ", the best so far" : "");
  for (const auto& [name, values] : std::span(its.metrics).first(std::min<std::size_t>(2, its.metrics.size())))
    line += concat(", ", name, " ", values.empty() ? "-" : value_text(mean_of(values)));
  if (its.whole.cut_short > 0) line += concat("; ", its.whole.cut_short, " cut short after ", eval.max_steps, " steps");
  if (eval.stop_at && mean >= *eval.stop_at) reached_ = mean;
  if (reached_) line += concat("; eval.stop_at ", *eval.stop_at, " is reached: the run ends");
  tell(line);
}

double RunRecord::wall_seconds() const { return seconds_since_process_start() - place_.clock_from; }

// Rates count from begin() and the steps made since, so that start-up and earlier processes are left out of them.
void RunRecord::account(const rl::RunReport& report) {
  place_.folder.require_in_place();
  last_.updates = run_.updates();
  last_.env_steps = run_.env_steps();
  last_.wall_s = wall_seconds();
  last_.env_steps_per_s = static_cast<double>(run_.env_steps() - first_step_) / seconds_since(started_);
  last_.episodes = report.episodes;
  if (!run_.episodes().empty()) {
    last_.episode_return_mean = report.episode_return_mean;
    last_.episode_length_mean = report.episode_length_mean;
  }
  last_.figures = rl::figures_of(report);
  if (report.rollouts) {
    // The file is opened at the first update that may have ended early: most runs never have one.
    if (!rollouts_) open_rollouts(run_.updates() - 1);
    rollouts_->append(run_.updates(), report.rollouts->steps);
  }
  pipeline_ = report.pipeline;
  if (report.gradients) {
    step_sizes_.add(report.gradients->sizes);
    replica_gradients_ = report.gradients->replicas;
  }
  note_solved(report);
  place_.progress.update(last_);
}

void RunRecord::open_rollouts(std::int64_t updates) {
  const std::filesystem::path path = place_.folder.paths().rollouts();
  rollouts_.emplace(path, updates);
  if (rollouts_->kept() == updates) return;
  place_.log.warning(concat(path.string(), " has ", rollouts_->kept(), " lines and the run made ", updates,
                            " updates before this one: it can no longer be replayed; the training goes on"));
}

// Solved is what the mean over a full window of episodes says; fewer could be luck.
void RunRecord::note_solved(const rl::RunReport& report) {
  const std::optional<double> threshold = run_.spec().reward_threshold;
  if (!threshold || progress_.solved_at_env_steps || !run_.episodes().full() || report.episode_return_mean < *threshold)
    return;
  progress_.solved_at_env_steps = run_.env_steps();
  const std::string line =
      concat("solved at ", run_.env_steps(), " environment steps: the mean return of the last 100 episodes is ",
             report.episode_return_mean, ", the threshold ", *threshold);
  tell(line);
}

void RunRecord::tell(const std::string& line) const {
  place_.log.info(line);
  place_.progress.say(line);
}

void RunRecord::stopping(int rank, int signal) {
  if (signal == 0) {
    // A signal that came at this very moment has no number yet.
    const bool is_wish = place_.observer != nullptr && place_.observer->wants_stop;
    const std::string who = is_wish ? place_.observer->stop_wish : "a signal";
    return place_.log.info(concat(who, ": the run stops after update ", run_.updates()));
  }
  const char* name = ::sigabbrev_np(signal);
  place_.log.info(concat(run_.ranks().size() > 1 ? concat("rank ", rank) : "the process", " got ",
                         name == nullptr ? concat("signal ", signal) : concat("SIG", name),
                         ": the run stops after update ", run_.updates()));
}

Summary RunRecord::summary_of(RunEnd end) const {
  Summary summary = app::summary_of(options_, progress_, end);
  summary.shards = run_.shards();
  summary.last = last_;
  summary.last.wall_s = wall_seconds();
  return summary;
}

// Writes as much as can still be told: the last line, the summary with the reason, and the picture.
void RunRecord::failed(const std::string& why) {
  place_.progress.finish();
  await_checkpoint();
  if (!place_.folder.is_in_place()) return;  // what lies there now may be another run's
  try {
    // Where the others may go on they make an update again that not all have kept.
    if (written_update_ != last_.updates && place_.kept == nullptr) write_metrics();
  } catch (const std::exception& error) {
    place_.log.error(concat("the last line could not be written: ", error.what()));
  }
  try {
    Summary summary = summary_of(RunEnd::kFailed);
    summary.failure = why;
    write_file(place_.folder.paths().summary(), to_json(summary) + "\n");
    if (written_update_ > 0) draw_run(place_.folder.paths(), run_.spec().reward_threshold);
  } catch (const std::exception& error) {  // the failure that is under way is what the user is told
    place_.log.error(concat("the summary could not be written: ", error.what()));
  }
}

// It may yet be the newest one that is whole.
void RunRecord::await_checkpoint() {
  try {
    (void)checkpoints_.wait();
  } catch (const std::exception& error) {
    place_.log.error(concat("a checkpoint could not be written: ", error.what()));
  }
}

void RunRecord::ended_early(const std::string& why) {
  place_.log.error(why);
  failed(why);
}

void RunRecord::account_gradients(Summary& summary) const {
  summary.steps = StepSummary{.made = step_sizes_.steps,
                              .gradients = over_steps(step_sizes_, &sync::StepSizes::gradients),
                              .effective_batch = over_steps(step_sizes_, &sync::StepSizes::rows)};
  for (std::size_t i = 0; i < summary.replicas.size(); ++i)
    summary.replicas[i].applied = replica_gradients_.at(i).totals.applied;
  std::istringstream table(learner::table_of(replica_gradients_, step_sizes_));
  for (std::string line; std::getline(table, line);) tell(line);
}

// The run is done and all that it learned is saved: a picture that cannot be drawn is not worth a failure.
void RunRecord::draw_picture() const {
  try {
    draw_run(place_.folder.paths(), run_.spec().reward_threshold);
  } catch (const std::exception& error) {
    place_.log.warning(concat("the run has ended well, but its picture could not be drawn: ", error.what(),
                              "; `tandem plot ", place_.folder.paths().folder.string(), " -o curve.png` draws it"));
  }
}

// The plan: end the progress display, write the last line, fill the summary from the run and the replicas' work, write
// summary.json, then draw the picture, which reads both files back.
Summary RunRecord::finish(RunEnd end, const std::vector<learner::ReplicaTeam::Work>& work,
                          const std::string& params_sha256, const std::string& state_sha256) {
  place_.progress.finish();
  place_.folder.require_in_place();
  if (written_update_ != last_.updates) write_metrics();
  Summary summary = summary_of(end);
  if (reached_ && run_.env_steps() < options_.total_steps) {
    summary.reached_return = *reached_;
    summary.reason = concat("stopped by eval.stop_at = ", *options_.eval.stop_at, " (an evaluation's mean return is ",
                            value_text(*reached_), ")");
  }
  summary.params_sha256 = params_sha256;
  summary.state_sha256 = state_sha256;
  summary.last.env_steps = run_.env_steps();  // the last checkpoint may have learned from what was on its way
  if (pipeline_) {
    const auto& lags = pipeline_->lag_of_run.histogram();
    summary.policy_lag_histogram.assign(lags.begin(), lags.end());
    if (const std::string advice = algorithm_of(options_).advice(options_, *pipeline_); !advice.empty()) tell(advice);
  }
  for (const auto& [rows, cpu_seconds, staleness] : work) {
    summary.replicas.push_back({.rows = rows,
                                .thread_cpu_s = cpu_seconds,
                                .gradients = staleness.offered,
                                .dropped = staleness.dropped,
                                .applied = staleness.offered - staleness.dropped,
                                .staleness_mean = staleness.mean(),
                                .waited_s = staleness.wait_seconds,
                                .staleness_max = staleness.most});
  }
  if (!replica_gradients_.empty()) account_gradients(summary);
  write_file(place_.folder.paths().summary(), to_json(summary) + "\n");
  draw_picture();
  place_.log.info(concat(summary.reason.empty() ? name_of(summary.end) : summary.reason, " after update ",
                         run_.updates(), ", environment step ", run_.env_steps(), "; state_sha256 ",
                         summary.state_sha256));
  return summary;
}

void record_failed_start(const TrainPlace& place, const TrainOptions& options, const std::string& why) {
  const RunPaths& paths = place.folder.paths();
  try {
    Summary summary = summary_of(options, {}, RunEnd::kFailed);
    summary.shards = options.shards.value_or(0);
    if (const JsonValue line = read_last_line(paths.metrics()); !line.is_null()) summary.last = from_line(line);
    summary.failure = why;
    write_file(paths.summary(), to_json(summary) + "\n");
  } catch (const Error& error) {  // the failure that is under way is what the user is told
    place.log.error(concat("the summary could not be written: ", error.what()));
  }
}

void record_failure(const std::filesystem::path& folder, const TrainOptions& options, const RunProgress& progress,
                    const std::string& why) {
  try {
    const RunFolder held = RunFolder::open(folder);
    const RunPaths& paths = held.paths();
    RunLog log(paths.log(), Severity::kInfo);
    try {
      std::optional<RunStatus> status = read_status(paths.status());
      // A run that has ended wrote its own summary, which says more than this process knows.
      if (status && status->state != kRunning) return;
      log.error(why);
      Summary summary = summary_of(options, progress, RunEnd::kFailed);
      // No run is left to ask for the count that `auto` resolved to.
      summary.shards = options.shards.value_or(0);
      if (const JsonValue line = read_last_line(paths.metrics()); !line.is_null()) summary.last = from_line(line);
      summary.failure = why;
      write_file(paths.summary(), to_json(summary) + "\n");
      if (!status) return;  // the run failed within its first half second
      status->state = name_of(RunEnd::kFailed);
      stamp(*status);
      write_status(paths.status(), *status);
    } catch (const Error& error) {
      log.error(concat("that the run failed could not be written: ", error.what()));
    }
  } catch (const Error&) {
    return;  // the folder is in use or no run's any more, or the log cannot be written
  }
}

}  // namespace tandem::app
