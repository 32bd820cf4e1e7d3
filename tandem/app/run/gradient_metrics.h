// app/run/gradient_metrics.h: what became of gradients where some may be dropped, and the effective batches of an
// update's steps: fields of metrics.jsonl and summary.json.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "tandem/base/json_reader.h"
#include "tandem/metrics/sink.h"

namespace tandem::app {

/// Of a replica's gradients, since this process started: replica/K/...
struct ReplicaGradientMetrics {
  std::int64_t offered = 0, accepted = 0, applied = 0, dropped = 0;
  double waited_ms = 0;

  friend bool operator==(const ReplicaGradientMetrics&, const ReplicaGradientMetrics&) = default;
};

/// Of a figure that each step has.
struct OverStepMetrics {
  double min = 0, mean = 0, max = 0;

  friend bool operator==(const OverStepMetrics&, const OverStepMetrics&) = default;
};

struct GradientMetrics {
  std::int64_t steps = 0;                // optimizer steps
  OverStepMetrics step_gradients = {};   // that a step was made of
  OverStepMetrics effective_batch = {};  // rows that these were of
  std::vector<ReplicaGradientMetrics> replicas = {};

  friend bool operator==(const GradientMetrics&, const GradientMetrics&) = default;
};

void add_gradients(const GradientMetrics& metrics, Record& record);
/// Those of a line of metrics.jsonl; nothing where it has none. Throws JsonError when they are not add_gradients()'s.
[[nodiscard]] std::optional<GradientMetrics> read_gradients(const JsonValue& line);

}  // namespace tandem::app
