#include <algorithm>
#include <limits>
#include <utility>

#include "tandem/rl/algo/impala/impala_run.h"

namespace tandem::rl {

// Counts one result of the learner. Batches that were too old have no step, but their samples and episodes count.
void ImpalaRun::account(Learned learned) {
  ++unreported_;
  env_steps_ += learned.new_samples;
  own_steps_ += learned.own_samples;
  seats_->account(learned.telling->index(), learned.dropped);
  if (learned.dropped) {
    dropped_ += learned.new_samples;
    return;
  }
  ++sums_.minibatches;
  sums_.learning_rate = learned.learning_rate;
  sums_.learn_seconds += learned.learn_seconds;
  sums_.sync_seconds += learned.sync_seconds;
}

// Makes the report of what account() has counted since the last one. Samples of the processes before this one are added
// after the ranks were combined, since every rank counts them.
RunReport ImpalaRun::finish_update() {
  ++updates_;
  unreported_ = 0;
  RunReport report{.learning = std::exchange(sums_, {}),
                   .sample_seconds = std::numeric_limits<double>::quiet_NaN()};  // it happens meanwhile
  LearnReport& learning = report.learning;
  const auto count = static_cast<double>(learning.minibatches);
  seats_->add_to(report);
  report.pipeline = stats_.report();
  learning.load_seconds = 1e-3 * report.pipeline->learner_load_time_ms * count;
  if (setup_.ranks.size() > 1) combine_ranks(report);
  own_steps_ = 0;
  report.pipeline->samples_sampled += sampled_before_;
  report.pipeline->samples_trained += trained_before_;
  report.pipeline->samples_dropped += dropped_before_;
  return report;
}

// Exchanges each rank's times and pipeline figures while the learners rest. Times are those of the slowest rank.
void ImpalaRun::combine_ranks(RunReport& report) {
  struct OfRank {
    double load_seconds, learn_seconds, sync_seconds;
    std::int64_t steps;
    pipeline::PipelineReport pipeline;
  };
  LearnReport& learning = report.learning;
  std::vector<pipeline::PipelineReport> pipelines;
  for (const OfRank& rank : gather_while_sampling(OfRank{.load_seconds = learning.load_seconds,
                            .learn_seconds = learning.learn_seconds,
                            .sync_seconds = learning.sync_seconds,
                            .steps = own_steps_,
                            .pipeline = *report.pipeline})) {
    pipelines.push_back(rank.pipeline);
    learning.load_seconds = std::max(learning.load_seconds, rank.load_seconds);
    learning.learn_seconds = std::max(learning.learn_seconds, rank.learn_seconds);
    learning.sync_seconds = std::max(learning.sync_seconds, rank.sync_seconds);
    report.ranks.push_back({.sample_seconds = rank.pipeline.learner_wait_seconds,
                            .learn_seconds = rank.learn_seconds,
                            .wait_seconds = rank.sync_seconds,
                            .env_steps = rank.steps});
  }
  report.pipeline = pipeline::combined(pipelines);
}

}  // namespace tandem::rl
