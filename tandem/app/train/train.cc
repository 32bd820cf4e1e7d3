#include "tandem/app/train/train.h"

#include <algorithm>
#include <iostream>

#include "tandem/app/train/build_run.h"
#include "tandem/app/train/rank_watch.h"
#include "tandem/app/train/run_record.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/trace.h"

namespace tandem::app {
namespace {

// The loop of a run, as every rank does it; rank 0 keeps the record.
class Training {
 public:
  Training(const TrainOptions& options, const rl::EnvRegistry& environments, const learner::Ranks& ranks,
           const StopSignals& signals)
      : total_steps_(options.total_steps),
        ranks_(ranks),
        signals_(signals),
        restarts_(options.env_restarts > 0 ? std::make_shared<rl::RestartBudget>(options.env_restarts) : nullptr),
        run_(begin(options, environments, ranks)),
        watch_(*run_, ranks) {}

  [[nodiscard]] RankWatch& watch() { return watch_; }
  [[nodiscard]] rl::TrainingRun& run() { return *run_; }
  /// Environments of this rank that failed and were made anew since the last call, a sentence each.
  [[nodiscard]] std::vector<std::string> take_remarks() const {
    return restarts_ ? restarts_->take_remarks() : std::vector<std::string>();
  }

  // `record`: null on ranks other than 0. `tell`: of remarks about environments that failed.
  RunEnd loop(RunRecord* record, const std::function<void(const std::vector<std::string>&)>& tell) {
    Decision decision = decide(false);  // a signal may have come before the first update
    while (decision.stop == StopRequest::kNone && (run_->env_steps() < total_steps_ || !run_->all_reported())) {
      const rl::RunReport report = update();
      watch_.made(report);
      if (record != nullptr) account(*record, report);
      tell(take_remarks());
      decision = decide(record != nullptr && record->checkpoint_due(std::max<std::int64_t>(saved_updates_, 0)));
      if (decision.checkpoint) checkpoint(record);
    }
    asked_ = decision.stop;
    if (record != nullptr && asked_ != StopRequest::kNone) record->stopping(decision.rank, decision.signal);
    if (run_->updates() != saved_updates_) checkpoint(record);
    return run_->env_steps() >= total_steps_ ? RunEnd::kFinished : RunEnd::kStopped;
  }

  void resumed() { saved_updates_ = run_->updates(); }

  [[nodiscard]] StopRequest asked() const { return asked_; }

 private:
  struct Decision {
    bool checkpoint = false;
    StopRequest stop = StopRequest::kNone;
    int rank = 0, signal = 0;  // who was asked for it, and by which signal
  };

  [[nodiscard]] std::unique_ptr<rl::TrainingRun> begin(const TrainOptions& options, const rl::EnvRegistry& environments,
                                                       const learner::Ranks& ranks) const {
    const Span span("begin");
    return make_run(options, environments, ranks, restarts_);
  }

  // The same on all ranks: rank 0 says whether it is time for a checkpoint, and whoever was told to stop stops all.
  Decision decide(bool checkpoint_due) {
    const StopRequest asked = signals_.asked();
    const int signal = signals_.first();
    if (ranks_.size() == 1) return {.checkpoint = checkpoint_due, .stop = asked, .signal = signal};
    const std::vector<std::vector<double>> all =
        ranks_.gather({checkpoint_due ? 1.0 : 0.0, static_cast<double>(asked), static_cast<double>(signal)});
    Decision decision{.checkpoint = all.front()[0] > 0};
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const auto its = static_cast<StopRequest>(static_cast<int>(all[rank][1]));
      if (its <= decision.stop) continue;
      decision.stop = its;
      decision.rank = static_cast<int>(rank);
      decision.signal = static_cast<int>(all[rank][2]);
    }
    return decision;
  }

  rl::RunReport update() {
    const Span span("update");
    watch_.at(RankWatch::Stage::kUpdate);
    return run_->update();
  }

  static void account(RunRecord& record, const rl::RunReport& report) {
    const Span span("record");
    record.account(report);
  }

  void checkpoint(RunRecord* record) {
    const Span span("checkpoint");
    watch_.at(RankWatch::Stage::kSave);
    const learner::StateParts parts = run_->save();
    if (record != nullptr) record->checkpoint(parts);
    // While rank 0 writes, nobody begins a rollout that it would be late in.
    if (ranks_.size() > 1) (void)ranks_.gather({0.0});
    saved_updates_ = run_->updates();
  }

  const std::int64_t total_steps_;
  const learner::Ranks ranks_;
  const StopSignals& signals_;
  StopRequest asked_ = StopRequest::kNone;
  const std::shared_ptr<rl::RestartBudget> restarts_;  // null: a failure ends the run
  const std::unique_ptr<rl::TrainingRun> run_;
  RankWatch watch_;
  std::int64_t saved_updates_ = -1;  // of the last checkpoint; -1 before the first
};

}  // namespace

Trained train(const Configuration& configuration, const rl::EnvRegistry& environments,
              const std::optional<model::Checkpoint>& from, const learner::Ranks& ranks, const TrainPlace& place) {
  Training training(configuration.options, environments, ranks, place.signals);
  rl::TrainingRun& run = training.run();
  RunRecord record(configuration, run, place);
  (void)ranks.gather({from ? 1.0 : 0.0});
  if (from) {
    std::string remark;
    const RunProgress progress = load_run(run, configuration.options.algo, *from, remark);
    record.resumed(progress, remark, metrics_interval(*from));
    training.resumed();
  }
  record.begin();
  training.watch().publish(place.folder.paths().status(),
                           {.env = configuration.options.env,
                            .algo = std::string(word_of(configuration.options.algo)),
                            .state = kRunning,
                            .env_steps = run.env_steps(),
                            .total_steps = configuration.options.total_steps},
                           place.log);
  RunEnd end{};
  const auto warn = [&place](const std::vector<std::string>& remarks) {
    for (const std::string& remark : remarks) place.log.warning(remark);
  };
  try {
    end = training.loop(&record, warn);
  } catch (const HungThread& error) {
    record.failed(error.what());
    training.watch().end(RunEnd::kFailed);
    place.end_process(error);
    throw;
  } catch (const std::exception& error) {
    record.failed(error.what());
    training.watch().end(RunEnd::kFailed);
    throw;
  }
  // follow() asks for the same, in the same order.
  const Span span("end");
  const std::vector<learner::ReplicaTeam::Work> work = run.work();
  const std::string state_sha256 = run.state_sha256();
  Trained trained{record.finish(end, work, run.params_sha256(), state_sha256), training.asked()};
  training.watch().end(end);
  return trained;
}

RunEnd follow(const TrainOptions& options, const rl::EnvRegistry& environments, const learner::Ranks& ranks,
              const StopSignals& signals) {
  Training training(options, environments, ranks, signals);
  const bool goes_on = ranks.gather({0.0}).front().front() > 0;  // as rank 0 says
  if (goes_on) {
    (void)training.run().load({});
    training.resumed();
  }
  const RunEnd end = training.loop(nullptr, [](const std::vector<std::string>& remarks) {
    for (const std::string& remark : remarks) std::cerr << concat("tandem: warning: ", remark, "\n");
  });
  (void)training.run().work();
  (void)training.run().state_sha256();
  return end;
}

}  // namespace tandem::app
