// pipeline/report_numbers.h: the report of several pipelines whose learners make their steps together, one a rank, and
// the numbers as which their reports travel.
//
// Threads: all.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "tandem/pipeline/pipeline_stats.h"

namespace tandem::pipeline {

/// Always as many, whatever the report says.
[[nodiscard]] std::vector<double> numbers_of(const PipelineReport& report);
/// Throws InvariantError for another number of numbers.
[[nodiscard]] PipelineReport report_of(std::span<const double> numbers);

/// Of at least one: batches and samples are summed, and lags of all counted. Steps are the learner's, which all have
/// made. Times, queues and the workers' idle shares are means. The learner's idle share is that of the one that waited
/// most for batches: while it did, the others waited for its steps.
[[nodiscard]] PipelineReport combined(std::span<const PipelineReport> reports);

}  // namespace tandem::pipeline
