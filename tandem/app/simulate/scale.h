// app/simulate/scale.h: what `tandem simulate-scale` is asked to study; samples a second of N ranks by calculation, for
// numbers of ranks that cannot be started (scale_model.cc); and what a simulation found, as text, as JSON and as a
// picture (scale_report.cc).
//
// An update takes R + M (L + c(N)): R until the last rank has ended its rollout, M minibatches of L, the slowest rank's
// of each, and c(N) = 2 log2(N) latency + 2 (N - 1) / N bytes / bandwidth for the sum of gradients. R and the samples
// follow from rollouts drawn for every rank: wait_all ends with the last; preempt when the share of the ranks is
// through; time_optimal where samples over the update's time are most. docs/scaling.md has the assumptions.
//
// Threads: free functions.
//
// The draws depend on `work.seed` alone, so policies are compared on the same rollouts. Times are in milliseconds.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/app/plot/chart.h"
#include "tandem/base/philox.h"
#include "tandem/pipeline/straggler_rule.h"

namespace tandem::app {

/// Milliseconds. Written "10", always the same; or "pareto:1:1.5", of a Pareto distribution with mean 1 and shape 1.5.
struct Cost {
  double mean_ms = 0;
  std::optional<double> shape = {};  // above 1: the lower, the heavier the tail

  /// Takes a random number only when there is a shape.
  [[nodiscard]] double draw_ms(Philox& random) const;
  [[nodiscard]] std::string text() const;

  bool operator==(const Cost&) const = default;
};

/// Nothing when the text is none. Means lie between 0 and 60,000 ms, and a shape is above 1: below it the mean would be
/// infinite.
[[nodiscard]] std::optional<Cost> read_cost(std::string_view text);

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

/// The parts of an update, as means over several.
struct ModelledUpdate {
  double samples = 0;                                // of all ranks
  double rollout_ms = 0, learn_ms = 0, wire_ms = 0;  // one after the other

  [[nodiscard]] double samples_per_s() const { return 1e3 * samples / (rollout_ms + learn_ms + wire_ms); }
};

/// Memory and time grow with ranks times steps.
[[nodiscard]] ModelledUpdate model_update(const SimulatedWork& work, const SimulatedWire& wire, std::int64_t ranks,
                                          pipeline::Stragglers policy);

/// Efficiency: samples a second of N ranks over N times those of one rank that waits for all, the first of `measured`.
/// Modelled points refer to the first of `modelled` instead.
struct ScaleFindings {
  ScaleOptions options;
  std::vector<ScalePoint> measured, modelled;
};

[[nodiscard]] std::string to_text(const ScaleFindings& findings);
[[nodiscard]] std::string to_json(const ScaleFindings& findings);
[[nodiscard]] Chart chart_of(const ScaleFindings& findings);

}  // namespace tandem::app
