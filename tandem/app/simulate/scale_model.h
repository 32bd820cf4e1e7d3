// app/simulate/scale_model.h: samples a second of N ranks by calculation, for numbers of ranks that cannot be started.
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
#include "tandem/app/simulate/scale_options.h"

namespace tandem::app {

/// The parts of an update, as means over several.
struct ModelledUpdate {
  double samples = 0;                                // of all ranks
  double rollout_ms = 0, learn_ms = 0, wire_ms = 0;  // one after the other

  [[nodiscard]] double samples_per_s() const { return 1e3 * samples / (rollout_ms + learn_ms + wire_ms); }
};

/// Memory and time grow with ranks times steps.
[[nodiscard]] ModelledUpdate model_update(const SimulatedWork& work, const SimulatedWire& wire, std::int64_t ranks,
                                          pipeline::Stragglers policy);

}  // namespace tandem::app
