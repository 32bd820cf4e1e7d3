#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "tandem/pipeline/report_numbers.h"
#include "tandem/rl/algo/impala/impala_run.h"

namespace tandem::rl {

void ImpalaRun::account(Learned learned) {
  ++unreported_;
  env_steps_ += learned.new_samples;
  own_steps_ += learned.own_samples;
  work_->account(learned.telling->index(), learned.dropped);
  if (learned.dropped) {
    dropped_ += learned.new_samples;
    return;
  }
  ++sums_.minibatches;
  sums_.grad_norm += learned.grad_norm;
  sums_.learning_rate = learned.learning_rate;
  sums_.learn_seconds += learned.learn_seconds;
  sums_.sync_seconds += learned.sync_seconds;
}

RunReport ImpalaRun::finish_update() {
  ++updates_;
  unreported_ = 0;
  RunReport report{.learning = std::exchange(sums_, {}),
                   .sample_seconds = std::numeric_limits<double>::quiet_NaN()};  // it happens meanwhile
  LearnReport& learning = report.learning;
  const auto count = static_cast<double>(learning.minibatches);  // of none the means are not a number
  learning.grad_norm /= count;
  work_->add_to(report);
  report.pipeline = stats_.report();
  learning.load_seconds = 1e-3 * report.pipeline->load_ms * count;
  if (setup_.ranks.size() > 1) combine_ranks(report);
  own_steps_ = 0;
  report.pipeline->samples_sampled += sampled_before_;
  report.pipeline->samples_trained += trained_before_;
  report.pipeline->samples_dropped += dropped_before_;
  return report;
}

// The learners rest.
void ImpalaRun::combine_ranks(RunReport& report) {
  LearnReport& learning = report.learning;
  std::vector<double> mine{learning.load_seconds, learning.learn_seconds, learning.sync_seconds,
                           static_cast<double>(own_steps_)};
  const std::vector<double> of_pipeline = pipeline::numbers_of(*report.pipeline);
  mine.insert(mine.end(), of_pipeline.begin(), of_pipeline.end());
  std::vector<pipeline::PipelineReport> pipelines;
  for (const std::vector<double>& rank : gather_while_sampling(mine)) {
    const pipeline::PipelineReport& its = pipelines.emplace_back(pipeline::report_of(std::span(rank).subspan(4)));
    learning.load_seconds = std::max(learning.load_seconds, rank[0]);
    learning.learn_seconds = std::max(learning.learn_seconds, rank[1]);
    learning.sync_seconds = std::max(learning.sync_seconds, rank[2]);
    report.ranks.push_back({.sample_seconds = its.learner_wait_seconds,
                            .learn_seconds = rank[1],
                            .wait_seconds = rank[2],
                            .env_steps = static_cast<std::int64_t>(rank[3])});
  }
  report.pipeline = pipeline::combined(pipelines);
}

}  // namespace tandem::rl
