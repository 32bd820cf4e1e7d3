// sync/mean_of_sums.h: from the sums over shards to the mean gradient: the division, the norm, and at most one
// clipping.
//
// The sums themselves are not divided, but for Divisor::kPresent: `scale` says what to multiply them by. All strategies
// use these functions, so a mean of the same sums has the same bits under each.
//
// Threads: those that own the gradients.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "tandem/model/flat_parameters.h"
#include "tandem/sync/mean/shard_gradients.h"
#include "tandem/sync/strategy.h"
#include "tandem/sync/strategy_options.h"

namespace tandem::sync {

/// The mean is `scale` times the sums, which are in place.
struct MeanGradient {
  double scale = 0;
  double lr_factor = 1;  // of the replicas that offered
  double left = 0;       // shards of replicas that have left
  StepReport report{};   // of a step that applies the mean, but for its number; the norm is that of the sum with kShard

  /// The report of the strategy's `step`-th step.
  [[nodiscard]] StepReport report_of(std::int64_t step) const {
    StepReport numbered = report;
    numbered.step = step;
    return numbered;
  }
};

/// Sums over shards, and what was counted with them.
struct Sums {
  model::FlatParameters::Gradients& gradients;
  const model::FlatParameters& parameters;  // of this layout
  Tally tally;
  double scale = 0;  // from the sums to the mean
  // Sums of squares of the flat buffers, where known; none with kPresent, which changes the sums.
  std::span<const std::optional<double>> squares{};
  std::string compression{};             // describe() of the compression that made the sums, for messages
  std::function<std::string()> whose{};  // called when a sum is not finite: a sentence about where that came from
  std::string of = "all shards";         // what was added up, for messages
};

/// From the sums over the shards of `tally`, which has a weight, to their mean, before clipping.
[[nodiscard]] double scale_of(const Tally& tally, Divisor divisor);

/// The first slot, over all buffers in order, whose gradient is not finite; none when all are.
[[nodiscard]] std::optional<std::size_t> first_not_finite(const model::FlatParameters::Gradients& gradients,
                                                          const model::FlatParameters& parameters);
/// The slot with this number, counted over all buffers in order.
[[nodiscard]] const model::ParameterSlot& slot_of(const model::FlatParameters& parameters, std::size_t number);

/// Norm, clipping and all figures of the mean; kPresent changes the sums. Throws RunError naming the parameter when a
/// sum is not finite. `step`: for messages.
[[nodiscard]] MeanGradient mean_of(const Sums& sums, const MeanOptions& options, std::int64_t step);

/// Throws RunError when the shards had no valid row.
void require_rows(const Tally& tally, std::int64_t step);

/// The coefficient of a gradient of norm `norm`, as torch's clip_grad_norm_: max_norm / (norm + 1e-6), at most 1.
[[nodiscard]] double clip_coefficient(const std::optional<double>& max_norm, double norm);

/// Euclidean norm of all gradients together. `squares`: the sum of squares of each flat buffer, where it is known.
[[nodiscard]] double norm_of(const model::FlatParameters::Gradients& gradients, const model::FlatParameters& parameters,
                             std::span<const std::optional<double>> squares = {});

}  // namespace tandem::sync
