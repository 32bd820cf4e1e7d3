// app/algo/impala.h: IMPALA to the program, and what APPO, which has the same pipeline, has of it.
//
// Impala holds no state of a run: options come in with each call, so one object serves every run of the process, from
// any thread. Keys below "impala." are APPO's as well; "appo." holds only the objective.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tandem/app/config/algorithm.h"
#include "tandem/rl/algo/impala/impala_setup.h"

namespace tandem::app {

/// IMPALA's batch is what one rollout worker brings; batches_per_update learner steps make one line of metrics.
class Impala : public Algorithm {
 public:
  [[nodiscard]] std::string name() const override { return "impala"; }
  void add_options(OptionTable& table, TrainOptions& options) const override;
  void check(Rules& rules) const override;
  [[nodiscard]] std::vector<OptionCheck> checks(const CheckPlace& place) const override;
  [[nodiscard]] BatchSize batch_size(const TrainOptions& options) const override;
  [[nodiscard]] std::string describe_batch(const TrainOptions& options, const rl::TrainingRun& run) const override;
  [[nodiscard]] std::string describe_workers(const TrainOptions& options) const override;
  [[nodiscard]] std::string advice(const TrainOptions& options, const pipeline::PipelineReport& report) const override;
  [[nodiscard]] std::vector<Knob> knobs(const TrainOptions& given, const Machine& machine) const override;
  [[nodiscard]] std::unique_ptr<rl::TrainingRun> make_run(const RunPlan& plan) const override;

 protected:
  /// For messages.
  /// The algorithm's name as people write it.
  [[nodiscard]] virtual std::string title() const { return "IMPALA"; }
  /// Puts another objective than V-trace's into the setup; called by make_run() when all other fields are set.
  virtual void set_loss(const TrainOptions&, rl::ImpalaSetup&) const {}
};

/// Returns APPO, whose class is private to appo.cc.
[[nodiscard]] std::unique_ptr<const Algorithm> make_appo();

}  // namespace tandem::app
