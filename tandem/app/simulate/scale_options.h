// app/simulate/scale_options.h: what `tandem simulate-scale` is asked to study.
//
// Plain values.
//
// Fractions lie between 0 and 1. The policies of one study share these options.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "tandem/app/simulate/cost.h"
#include "tandem/pipeline/straggler_rule.h"

namespace tandem::app {

/// The work of a rank in an update, and its distance from the others.
struct SimulatedWork {
  int steps = 128;                            // of a rank's rollout
  Cost step{.mean_ms = 1};                    // each of them
  int minibatches = 16;                       // of an update
  Cost minibatch{.mean_ms = 10};              // each of them, before its gradients are summed
  std::int64_t parameters = 10'000;           // float32, summed over the ranks in each minibatch
  double slow_factor = 1;                     // of the last rank's steps, when there are several
  double sync_frac = 0.6, least_frac = 0.25;  // as pipeline::StragglerOptions
  std::int64_t seed = 0;
};

/// The cost of a sum over N ranks in the analytic model: 2 log2(N) x latency + 2 (N - 1) / N x bytes / bandwidth.
struct SimulatedWire {
  double latency_ms = 0.05;
  double gigabits_per_s = 10;
};

/// Measured and modelled points are reported apart.
struct ScaleOptions {
  SimulatedWork work;
  SimulatedWire wire;
  std::vector<std::int64_t> ranks{1, 2, 4, 8, 16, 32, 64};        // that are really started
  std::vector<std::int64_t> model_ranks{128, 512, 2048, 10'000};  // of the analytic model, besides
  int updates = 5;                                                // that are measured, after two that are not
  std::optional<std::filesystem::path> picture = {};
};

/// Policies that are studied, in the order of the columns.
inline constexpr pipeline::Stragglers kPolicies[] = {pipeline::Stragglers::kWaitAll, pipeline::Stragglers::kPreempt,
                                                     pipeline::Stragglers::kTimeOptimal};

/// Samples a second of all ranks, by policy, in their order.
struct ScalePoint {
  std::int64_t ranks = 1;
  std::vector<double> samples_per_s;
};

}  // namespace tandem::app
