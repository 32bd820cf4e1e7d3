// rl/algo/report_figures.h: the numbers of a RunReport by name, for any sink of tandem/metrics.
//
//     JsonlSink sink("metrics.jsonl");
//     while (run.env_steps() < total_steps) sink.write(rl::figures_of(run.update()));
//
// The program writes the same names behind its own (updates, env_steps, wall_s and the mean return). The list of all
// names is in docs/metrics.md.
//
// Threads: any.
#pragma once
#include "tandem/metrics/sink.h"
#include "tandem/rl/algo/training_run.h"

namespace tandem::rl {

/// The losses and times of the update; then, where the report has them, the figures of ranks (rank_NAME_min, _mean,
/// _max), of rollouts that may end early, of the pipeline, of gradients that may be dropped (steps_made,
/// replica/K/NAME) and of policies (policy/NAME/...). Times are in milliseconds.
/// Groups of figures that the run does not have are left out.
[[nodiscard]] Record figures_of(const RunReport& report);

}  // namespace tandem::rl
