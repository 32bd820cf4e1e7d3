// The plan of a training, on the main thread of each rank: build the run; rank 0 tells the others whether it begins,
// goes on from a checkpoint, or from the state that all have kept; then updates until all steps are made or somebody is
// asked to stop. Between two updates all ranks exchange one message (Word), so that all of them save, stop or meet anew
// after the same update. Every rank makes the same collective calls in the same order: train() and follow() must agree
// on them.
#include "tandem/app/train/train.h"

#include <algorithm>
#include <iostream>
#include <span>
#include <thread>
#include <utility>

#include "tandem/app/config/algorithm.h"
#include "tandem/app/run/early_end.h"
#include "tandem/app/train/held_process.h"
#include "tandem/app/train/isolation.h"
#include "tandem/app/train/rank_watch.h"
#include "tandem/app/train/run_record.h"
#include "tandem/app/train/warm_start.h"
#include "tandem/app/train/watcher.h"
#include "tandem/base/mutex.h"
#include "tandem/base/text.h"
#include "tandem/comm/elastic_world.h"
#include "tandem/concurrency/trace.h"
#include "tandem/rl/env/restarting_envs.h"

namespace tandem::app {
namespace {

// How rank 0 says that a training starts.
constexpr double kBegins = 0, kGoesOnFromCheckpoint = 1, kGoesOnFromKept = 2, kBeginsWarm = 3;

// Gives a lock back for the life of the object.
class Unlocked {
 public:
  explicit Unlocked(Mutex& mutex) TANDEM_NO_THREAD_SAFETY_ANALYSIS : mutex_(mutex) { mutex_.unlock(); }
  ~Unlocked() TANDEM_NO_THREAD_SAFETY_ANALYSIS { mutex_.lock(); }

 private:
  Mutex& mutex_;
};

// The loop of a run, as every rank does it; rank 0 keeps the record.
class Training {
 public:
  Training(const TrainOptions& options, const rl::EnvRegistry& environments, const learner::Ranks& ranks,
           const StopSignals& signals, KeptState* kept)
      : total_steps_(options.total_steps),
        evaluated_(isolated_where_asked(environments, options, ranks.size())),
        ranks_(ranks),
        signals_(signals),
        kept_(kept),
        restarts_(options.env_restarts > 0 ? std::make_shared<rl::RestartBudget>(options.env_restarts) : nullptr),
        run_(begin(options, environments, ranks)),
        watch_(*run_, ranks) {}

  [[nodiscard]] RankWatch& watch() { return watch_; }
  [[nodiscard]] rl::TrainingRun& run() { return *run_; }

  // `record`, `watcher`: null on ranks other than 0. `tell`: of an environment of this rank that failed and was made
  // anew. Returns nothing when it is time to meet anew. The order within a round matters: the update is kept by all
  // ranks before rank 0 writes its line, and the line is written before a checkpoint. Ranks leave the loop together,
  // since decide() returns the same on all of them.
  std::optional<RunEnd> loop(RunRecord* record, Watcher* watcher, const std::function<void(const std::string&)>& tell) {
    const EarlyEnd early([this, record, trainer = std::this_thread::get_id()](const std::string& why) {
      // What the record is made of stands still on this thread, and else while the training waits for the record.
      if (std::this_thread::get_id() != trainer) recording_.lock();
      end_early(record, why);
    });
    const MutexLock lock(recording_);
    keep("");
    Decision decision = decide(record, false);  // a signal may have come before the first update
    while (decision.stop == StopRequest::kNone && !decision.target_reached &&
           (run_->env_steps() < total_steps_ || !run_->all_reported())) {
      // Looked at before the next update, so that all ranks hold the same kept state when they leave.
      if (decision.meet_anew) return std::nullopt;
      const rl::RunReport report = update();
      watch_.made(report);
      if (record != nullptr) {
        const Span span("record");
        record->account(report);
      }
      if (record != nullptr && record->evaluation_due(run_->env_steps() >= total_steps_)) evaluate(*record);
      keep(hand_round_line(record));
      if (record != nullptr && kept_ != nullptr) kept_->progress = record->progress();
      if (restarts_) std::ranges::for_each(restarts_->take_remarks(), tell);
      std::ranges::for_each(run_->take_remarks(), tell);
      process_.hold(signals_, tell);
      const std::int64_t saved = std::max<std::int64_t>(saved_updates_, 0);
      const bool is_due = record != nullptr && (checkpoint_asked_ || record->checkpoints().is_due(saved));
      decision = decide(record, is_due);
      if (record != nullptr) record->write_line();  // all have kept the update: what is read there is not made again
      if (watcher != nullptr) watcher->updated(record->figures());
      if (record != nullptr) told(record->checkpoints().written(), watcher);
      if (watcher != nullptr) ask(*watcher, decision);
      if (decision.checkpoint) checkpoint(record, watcher);
    }
    asked_ = decision.stop;
    if (record != nullptr && asked_ != StopRequest::kNone) record->stopping(decision.rank, decision.signal);
    if (run_->updates() != saved_updates_) checkpoint(record, watcher);
    settle(record, watcher);
    if (!run_->all_reported()) {  // a checkpoint learns from what is on its way
      const rl::RunReport rest = run_->report_rest();
      if (record != nullptr) record->account(rest);
    }
    if (watcher != nullptr) watcher->tell_episodes();
    return run_->env_steps() >= total_steps_ || decision.target_reached ? RunEnd::kFinished : RunEnd::kStopped;
  }

  void resumed() { saved_updates_ = run_->updates(); }

  [[nodiscard]] StopRequest asked() const { return asked_; }

 private:
  struct Decision {
    bool checkpoint = false;
    bool meet_anew = false, target_reached = false;
    StopRequest stop = StopRequest::kNone;
    int rank = 0, signal = 0;  // who was asked for it, and by which signal
  };

  [[nodiscard]] std::unique_ptr<rl::TrainingRun> begin(const TrainOptions& options, const rl::EnvRegistry& environments,
                                                       const learner::Ranks& ranks) const {
    const Span span("begin");
    return algorithm_of(options).make_run(
        {.options = options, .environments = environments, .ranks = ranks, .restarts = restarts_});
  }

  // For this update where the run is alone. Other ranks have decided about it already, so they hear of it in the next.
  void ask(const Watcher& watcher, Decision& decision) {
    if (watcher.wants_stop()) observer_asked_ = StopRequest::kEnd;
    checkpoint_asked_ = watcher.wants_checkpoint();
    if (ranks_.size() > 1) return;
    decision.stop = std::max(decision.stop, observer_asked_);
    decision.checkpoint |= std::exchange(checkpoint_asked_, false);
  }

  // The message of a rank to the others between two updates.
  struct Word {
    std::int64_t checkpoint_due = 0, meet_anew = 0, target_reached = 0, signal = 0;
    RunProgress progress = {};  // rank 0's
    StopRequest asked = StopRequest::kNone;
  };

  // Returns the same on all ranks. Rank 0 says whether it is time for a checkpoint or to meet anew, and whoever was
  // told to stop stops all. A stronger request prevails over a weaker one, and the lowest rank over others with an
  // equal one.
  Decision decide(const RunRecord* record, bool checkpoint_due) {
    Word mine{.checkpoint_due = checkpoint_due,
              .signal = signals_.first(),
              .asked = std::max(signals_.asked(), observer_asked_)};
    if (kept_ != nullptr && kept_->someone_waits()) mine.meet_anew = 1;
    if (record != nullptr) {
      mine.progress = record->progress();
      mine.target_reached = record->reached_target();
    }
    const std::vector<Word> all = gather(mine);
    Decision decision{.checkpoint = all.front().checkpoint_due > 0,
                      .meet_anew = all.front().meet_anew > 0,
                      .target_reached = all.front().target_reached > 0};
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank].asked <= decision.stop) continue;
      decision.stop = all[rank].asked;
      decision.rank = static_cast<int>(rank);
      decision.signal = static_cast<int>(all[rank].signal);
    }
    if (kept_ != nullptr) kept_->progress = all.front().progress;
    return decision;
  }

  [[nodiscard]] std::vector<Word> gather(const Word& mine) const {
    std::vector<double> numbers;
    learner::append_struct(mine, numbers);
    std::vector<Word> all;
    for (const std::vector<double>& its : ranks_.gather(numbers)) {
      std::span<const double> left = its;
      all.push_back(learner::take_struct<Word>(left));
    }
    return all;
  }

  // To those who write it when this leader dies before it does.
  std::string hand_round_line(const RunRecord* record) const {
    if (kept_ == nullptr) return "";
    return text_from(ranks_, 0, record != nullptr ? record->line() : "");
  }

  void keep(const std::string& line) {
    if (kept_ == nullptr || kept_->updates == run_->updates()) return;
    const Span span("keep");
    // Saved into a new object first: when a rank is lost during save(), the state kept before stays whole.
    learner::StateParts parts = run_->save();
    kept_->parts = std::move(parts);
    kept_->line = line;
    kept_->updates = run_->updates();
  }

  rl::RunReport update() {
    const Span span("update");
    watch_.at(RankWatch::Stage::kUpdate);
    const Unlocked others(recording_);  // a thread that ends the process may write the record meanwhile
    return run_->update();
  }

  // A library has called exit(), on whichever thread. This process writes no checkpoint: the run is within an update.
  void end_early(RunRecord* record, const std::string& why) {
    if (record == nullptr || kept_ != nullptr) return;  // where others may go on, the record goes on with them
    record->ended_early(concat(why, "; lost are the updates after ", std::max<std::int64_t>(saved_updates_, 0),
                               ", which the last checkpoint was made after"));
    watch_.end(RunEnd::kFailed);
  }

  // The other ranks wait in decide() meanwhile.
  void evaluate(RunRecord& record) {
    const Span span("evaluate");
    record.evaluate(run_->policies(), evaluated_);
  }

  // All ranks call save() or save_aside(), though only rank 0 writes the result. One checkpoint is written at a time.
  void checkpoint(RunRecord* record, Watcher* watcher) {
    const Span span("checkpoint");
    watch_.at(RankWatch::Stage::kSave);
    if (kept_ == nullptr) {
      if (record != nullptr) {
        const Span waiting("await checkpoint");
        told(record->checkpoints().wait(), watcher);
      }
      std::optional<learner::StateAside> aside =
          run_->save_aside(record != nullptr ? record->checkpoints().held() : std::set<std::string>{});
      if (aside) {
        if (record != nullptr) record->checkpoints().start(*std::move(aside), record->progress());
        saved_updates_ = run_->updates();
        is_aside_ = true;
        return;
      }
    }
    learner::StateParts parts = kept_ != nullptr ? kept_->parts : run_->save();  // kept is that of this update
    if (record != nullptr) told(record->checkpoints().write(std::move(parts), record->progress()), watcher);
    wait_for_record();
    saved_updates_ = run_->updates();
  }

  // Until the last checkpoint is on the disk.
  void settle(RunRecord* record, Watcher* watcher) {
    if (!is_aside_) return;
    if (record != nullptr) told(record->checkpoints().wait(), watcher);
    wait_for_record();
  }

  // While rank 0 writes, nobody begins a rollout that it would be late in.
  void wait_for_record() const {
    if (ranks_.size() > 1) (void)ranks_.gather({0.0});
  }

  static void told(const std::optional<SavedCheckpoint>& saved, const Watcher* watcher) {
    if (saved && watcher != nullptr) watcher->saved(*saved);
  }

  const std::int64_t total_steps_;
  const rl::EnvRegistry evaluated_;  // for evaluations
  const learner::Ranks ranks_;
  const StopSignals& signals_;
  KeptState* const kept_;  // null: the run ends with any of its ranks
  StopRequest asked_ = StopRequest::kNone;
  HeldProcess process_;
  Mutex recording_;                                    // held while this rank is not within an update
  const std::shared_ptr<rl::RestartBudget> restarts_;  // null: a failure ends the run
  StopRequest observer_asked_ = StopRequest::kNone;    // of rank 0, where it has one
  bool checkpoint_asked_ = false;                      // by the observer, and not decided yet
  const std::unique_ptr<rl::TrainingRun> run_;
  RankWatch watch_;
  std::int64_t saved_updates_ = -1;  // of the last checkpoint; -1 before the first
  bool is_aside_ = false;            // whether checkpoints are written beside the run; the same on all ranks
};

// Rank 0's part of going on from the state that all have kept.
void go_on(rl::TrainingRun& run, const KeptState& kept, RunRecord& record, const LineSchedule& lines) {
  const auto resumed = run.load([&](const std::string& name) { return learner::part_of(kept.parts, name); });
  RunProgress progress = kept.progress;
  const std::string remark = why_new_episodes(run.spec().id, resumed);
  if (!remark.empty()) progress.resumed = ResumeExactness::kInexact;
  record.resumed(progress, remark, lines);
}

// A run that cannot be built has a summary that says why.
Training build(const TrainOptions& options, const rl::EnvRegistry& environments, const learner::Ranks& ranks,
               const TrainPlace& place) {
  const bool is_first = place.kept == nullptr || !place.kept->exists();
  const EarlyEnd early([&](const std::string& why) {
    if (is_first) record_failed_start(place, options, why);
  });
  try {
    return {options, environments, ranks, place.signals, place.kept};
  } catch (const std::exception& error) {
    if (is_first) record_failed_start(place, options, error.what());
    throw;
  }
}

// Rank 0's part of a warm start.
void begin_warm(rl::TrainingRun& run, const TrainOptions& options, const TrainPlace& place) {
  const WarmSource source = read_warm_source(*options.init_from);
  const std::string line = concat("begins with what ", source.place, " has learned");
  place.log.info(line);
  place.progress.say(line);
  for (const std::string& note : warm_start(run, options, &source)) place.log.info(note);
}

bool can_go_on(const KeptState* kept, const std::exception& error) {
  return kept != nullptr && kept->exists() && comm::is_loss_of_others(error);
}

}  // namespace

std::optional<Trained> train(const Configuration& configuration, const rl::EnvRegistry& environments,
                             const std::optional<model::Checkpoint>& from, const learner::Ranks& ranks,
                             const TrainPlace& place) {
  const TrainOptions& options = configuration.options;
  KeptState* const kept = place.kept;
  const bool has_kept = kept != nullptr && kept->exists();
  // The order is: build the run, tell the others how it starts, load, begin the record, loop, then finish. Errors of
  // the loop are recorded here, unless the ranks may go on from the kept state.
  Training training = build(options, environments, ranks, place);
  rl::TrainingRun& run = training.run();
  RunRecord record(configuration, run, place);
  const bool is_warm = !has_kept && !from && options.init_from;
  (void)ranks.gather({has_kept ? kGoesOnFromKept : from ? kGoesOnFromCheckpoint : is_warm ? kBeginsWarm : kBegins});
  if (has_kept) {
    go_on(run, *kept, record, options.log.lines());
  } else if (from) {
    std::string remark;
    const RunProgress progress = load_run(run, options, *from, remark);
    record.resumed(progress, remark, line_schedule(*from));
    training.resumed();
  } else if (is_warm) {
    begin_warm(run, options, place);
  }
  std::optional<Watcher> watcher;
  if (place.observer != nullptr && !place.observer->is_empty()) watcher.emplace(*place.observer, run);
  record.begin();
  training.watch().publish(place.folder,
                           {.env = options.env,
                            .algo = options.algo,
                            .state = kRunning,
                            .env_steps = run.env_steps(),
                            .total_steps = options.total_steps},
                           place.log);
  const auto warn = [&place](const std::string& remark) { place.log.warning(remark); };
  std::optional<RunEnd> end;
  try {
    end = training.loop(&record, watcher ? &*watcher : nullptr, warn);
  } catch (const HungThread& error) {
    record.failed(error.what());
    training.watch().end(RunEnd::kFailed);
    // A hung thread may hold anything that a destructor waits for, so the process ends without unwinding.
    place.end_process(error);
    throw;
  } catch (const std::exception& error) {
    if (can_go_on(kept, error)) throw;  // the record goes on with the run
    record.failed(error.what());
    training.watch().end(RunEnd::kFailed);
    throw;
  }
  if (!end) return std::nullopt;
  // follow() asks for the same, in the same order.
  const Span span("end");
  const std::vector<learner::ReplicaTeam::Work> work = run.work();
  const std::string state_sha256 = run.state_sha256();
  Trained trained{record.finish(*end, work, run.params_sha256(), state_sha256), training.asked()};
  training.watch().end(*end);
  return trained;
}

std::optional<RunEnd> follow(const TrainOptions& options, const rl::EnvRegistry& environments,
                             const learner::Ranks& ranks, const StopSignals& signals, KeptState* kept,
                             const std::function<void(const HungThread&)>& end_process) {
  Training training(options, environments, ranks, signals, kept);
  const double start = ranks.gather({kBegins}).front().front();  // as rank 0 says
  // The parts come from rank 0, so this rank gives no source of its own.
  if (start == kBeginsWarm) (void)warm_start(training.run(), options, nullptr);
  if (start == kGoesOnFromCheckpoint || start == kGoesOnFromKept) (void)training.run().load({});
  if (start == kGoesOnFromCheckpoint) training.resumed();
  const auto warn = [](const std::string& remark) {
    std::cerr << concat("tandem: warning: ", printable(remark), "\n");
  };
  std::optional<RunEnd> end;
  try {
    end = training.loop(nullptr, nullptr, warn);
  } catch (const HungThread& error) {
    end_process(error);
    throw;
  }
  if (!end) return end;
  (void)training.run().work();
  (void)training.run().state_sha256();
  return end;
}

}  // namespace tandem::app
