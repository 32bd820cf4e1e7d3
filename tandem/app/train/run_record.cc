#include "tandem/app/train/run_record.h"

#include "tandem/app/plot/run_picture.h"
#include "tandem/app/run/quantity_text.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/clock.h"
#include "tandem/base/text.h"
#include "tandem/metrics/jsonl_sink.h"
#include "tandem/metrics/process_stats.h"
#include "tandem/metrics/tensorboard_sink.h"

namespace tandem::app {

RunRecord::RunRecord(const Configuration& configuration, const rl::PpoRun& run, const TrainPlace& place)
    : options_(configuration.options),
      config_(configuration.yaml),
      run_(run),
      place_(place),
      store_(place.folder.paths().checkpoints(), {.last = static_cast<int>(options_.checkpoint.keep_last), .best = 1}) {
}

void RunRecord::resumed(const RunProgress& progress, const std::string& remark) {
  progress_ = progress;
  place_.log.info(concat("goes on after update ", run_.updates(), ", environment step ", run_.env_steps()));
  if (!remark.empty())
    place_.log.warning(concat("from here on the numbers may differ from an uninterrupted run's: ", remark));
}

void RunRecord::begin() {
  truncate_jsonl(place_.folder.paths().metrics(), "updates", run_.updates());
  // Should there be no update left to make, these are the last values.
  last_ = read_last(place_.folder.paths().metrics(), run_.updates()).value_or(UpdateMetrics{});
  store_.discard_after(run_.updates());
  first_step_ = run_.env_steps();
  sinks_.push_back(std::make_unique<JsonlSink>(place_.folder.paths().metrics()));
  if (options_.log.tensorboard) {
    sinks_.push_back(std::make_unique<TensorBoardSink>(place_.folder.paths().folder, "env_steps", first_step_));
  }
  last_.updates = run_.updates();
  last_.env_steps = run_.env_steps();
  place_.log.info(
      concat(options_.env, ": ", counted(run_.replicas(), "replica"), " on ", options_.devices,
             run_.setup().ranks.size() > 1 ? concat(" of each of ", run_.setup().ranks.size(), " ranks") : "", ", ",
             counted(run_.setup().shards, "shard"), "; an update has ", options_.ppo.batch_rows(), " rows in all, ",
             options_.ppo.batch_rows() / run_.setup().shards, " a shard; a minibatch ", options_.ppo.minibatch_rows(),
             " in all"));
  if (options_.strategy == sync::StrategyKind::kAsynchronous) {
    place_.log.warning(
        "strategy asynchronous: the replicas apply their gradients in the order in which they come, so another run "
        "with "
        "the same seed has other numbers, and so has a resumed one");
  }
  place_.progress.start({.total_steps = options_.total_steps, .first_step = first_step_});
  started_ = saved_at_ = Clock::now();
}

void RunRecord::account(const rl::RunReport& report) {
  last_.updates = run_.updates();
  last_.env_steps = run_.env_steps();
  last_.wall_s = seconds_since_process_start();
  last_.env_steps_per_s = static_cast<double>(run_.env_steps() - first_step_) / seconds_since(started_);
  last_.episodes = report.episodes;
  if (!run_.episodes().empty()) {
    last_.episode_return_mean = report.episode_return_mean;
    last_.episode_length_mean = report.episode_length_mean;
  }
  last_.policy_loss = report.ppo.policy_loss;
  last_.value_loss = report.ppo.value_loss;
  last_.entropy = report.ppo.entropy;
  last_.approx_kl = report.ppo.approx_kl;
  last_.clip_fraction = report.ppo.clip_fraction;
  last_.explained_variance = report.ppo.explained_variance;
  last_.grad_norm = report.ppo.grad_norm;
  last_.learning_rate = report.ppo.learning_rate;
  last_.sample_ms = 1e3 * report.sample_seconds;
  last_.load_ms = 1e3 * report.ppo.load_seconds;
  last_.learn_ms = 1e3 * report.ppo.learn_seconds;
  last_.sync_ms = 1e3 * report.ppo.sync_seconds;
  note_solved(report);
  if (run_.updates() % options_.log.every_updates == 0) {
    for (const auto& sink : sinks_) sink->write(to_record(last_));
  }
  place_.progress.update(last_);
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
  place_.log.info(line);
  place_.progress.say(line);
}

bool RunRecord::checkpoint_due(std::int64_t saved_updates) const {
  const CheckpointSettings& when = options_.checkpoint;
  if (when.every_updates && run_.updates() - saved_updates >= *when.every_updates) return true;
  return when.every_seconds && seconds_since(saved_at_) >= *when.every_seconds;
}

void RunRecord::checkpoint(const learner::StateParts& parts) {
  save_run(run_, parts, progress_, config_, store_);
  saved_at_ = Clock::now();
  place_.log.debug(concat("checkpoint after update ", run_.updates()));
}

Summary RunRecord::finish(RunEnd end, const std::vector<learner::ReplicaTeam::Work>& work,
                          const std::string& params_sha256, const std::string& state_sha256) {
  place_.progress.finish();
  Summary summary{.algo = "ppo",
                  .env = options_.env,
                  .devices = options_.devices,
                  .seed = options_.seed,
                  .shards = run_.setup().shards,
                  .total_steps = options_.total_steps,
                  .end = end,
                  .resumed = progress_.resumed,
                  .last = last_,
                  .solved_at_env_steps = progress_.solved_at_env_steps,
                  .params_sha256 = params_sha256,
                  .state_sha256 = state_sha256,
                  .peak_rss_mb = peak_rss_mb(),
                  .replicas = {},
                  .torch = torch_version(),
                  .cpu = instruction_sets()};
  summary.last.wall_s = seconds_since_process_start();
  for (const auto& [rows, cpu_seconds, staleness] : work) {
    summary.replicas.push_back({.rows = rows,
                                .thread_cpu_s = cpu_seconds,
                                .gradients = staleness.offered,
                                .dropped = staleness.dropped,
                                .staleness_mean = staleness.mean(),
                                .staleness_max = staleness.most});
  }
  write_file(place_.folder.paths().summary(), to_json(summary) + "\n");
  draw_run(place_.folder.paths(), run_.spec().reward_threshold);
  place_.log.info(concat(summary.end == RunEnd::kFinished ? "finished" : "stopped", " after update ", run_.updates(),
                         ", environment step ", run_.env_steps(), "; state_sha256 ", summary.state_sha256));
  return summary;
}

}  // namespace tandem::app
