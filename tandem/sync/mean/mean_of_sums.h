// sync/mean_of_sums.h: from the gradients of shards to their mean: a replica's sums over its shards, the division, the
// norm, and at most one clipping.
//
// The sums themselves are not divided, but for Divisor::kPresent: `scale` says what to multiply them by. All strategies
// use these functions, so a mean of the same sums has the same bits under each.
//
// Threads: those that own the gradients.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/summation_tree.h"
#include "tandem/model/flat_parameters.h"
#include "tandem/sync/replica.h"
#include "tandem/sync/strategy.h"
#include "tandem/sync/strategy_options.h"

namespace tandem::sync {

/// Counts that are summed with the gradients.
struct Tally {
  double weight = 0;  // rows
  double shards = 0;  // that had a pass
  double loss = 0;    // weighted
  double left = 0;    // shards of replicas that have left
  double rate = 0;    // factors of the learning rate, one a shard that had a pass

  Tally& operator+=(const Tally& other) {
    weight += other.weight;
    shards += other.shards;
    loss += other.loss;
    left += other.left;
    rate += other.rate;
    return *this;
  }
};

/// Sums the gradients of a replica's shards along the fixed tree.
///
/// Each shard's backward pass accumulates into a zeroed set of flat gradients of its own; finished ones are added
/// pairwise in the tree's association, so at most depth + 1 sets are alive. The sum ends in the first set, which lies
/// in the group's memory. The buffers of the module (batch norm) are added in the same way: every shard starts from the
/// buffers as they were at the begin of the step. Threads: single-thread, the replica's.
class ShardGradients {
 public:
  /// `allocate`: memory of the first set, where a group reduces it in place; else it is as that of the other sets.
  explicit ShardGradients(Replica& replica, const model::FlatParameters::Allocate& allocate = {});

  /// Starts the pass of the next shard. Throws InvariantError when shards come out of order.
  void open(int shard);
  /// Ends the pass; after the last shard's, all sums of this replica are in place.
  void close(double weight, double loss);
  /// Throws InvariantError unless every shard had its pass.
  void require_complete() const;
  /// The replica's factor of the learning rate in this step.
  void offer_rate(double lr_factor) { tallies_.front().rate = lr_factor * tally().shards; }
  /// In place of all passes of a step: this replica has left and adds nothing to the sums.
  void offer_nothing();

  /// Sum over this replica's shards: gradients and presence, the Tally, float buffers.
  [[nodiscard]] model::FlatParameters::Gradients& sum() { return sets_.front(); }
  [[nodiscard]] const Tally& tally() const { return tallies_.front(); }
  /// The Tally in place, as float64: for a sum over replicas.
  [[nodiscard]] const at::Tensor& tally_to_sum() const { return tally_to_sum_; }
  /// The first shard of this replica whose loss was not finite in this step, and that loss; none when all were finite.
  [[nodiscard]] const std::optional<std::pair<int, double>>& shard_without_loss() const { return without_loss_; }
  [[nodiscard]] std::vector<at::Tensor>& buffer_sums() { return buffer_sums_.front(); }
  /// Sparse gradients of each shard, in shard order: [shard][buffer][slot].
  [[nodiscard]] std::vector<std::vector<std::vector<at::Tensor>>>& sparse() { return sparse_; }

 private:
  void take_buffers(int shard, std::vector<at::Tensor>& sums);
  void merge(std::size_t into, std::size_t from);

  Replica& replica_;
  TreeAccumulator tree_;  // which set the next shard goes to, and which to add
  std::vector<model::FlatParameters::Gradients> sets_;
  std::vector<Tally> tallies_;
  at::Tensor tally_to_sum_;  // the memory of the first tally
  std::vector<std::vector<at::Tensor>> buffer_sums_;
  std::vector<std::vector<std::vector<at::Tensor>>> sparse_;
  std::optional<std::pair<int, double>> without_loss_;
  int done_ = 0;  // shards finished in this step
  bool in_pass_ = false;
};

/// The mean is `scale` times the sums, which are in place.
struct MeanGradient {
  double scale = 0;
  double lr_factor = 1;  // of the replicas that offered
  double left = 0;       // shards of replicas that have left
  // What forming it took beside StepReport::wait_seconds: time in which sums were under way while this replica did
  // something else, and bytes that it handed to collectives.
  double hidden_seconds = 0;
  std::int64_t bytes = 0;
  StepReport report{};  // of a step that applies the mean, but for its number; the norm is that of the sum with kShard

  /// The report of the strategy's `step`-th step.
  [[nodiscard]] StepReport report_of(std::int64_t step) const {
    StepReport numbered = report;
    numbered.step = step;
    return numbered;
  }
};

/// Where numbers that are not finite came from.
struct NotFinite {
  std::string losses{};     // "replica 1 (shard 3: inf)": those whose loss was not finite already; empty: none
  std::string gradients{};  // sentences about replicas whose gradients were not, with a blank before each
};

/// Sums over shards, and what was counted with them.
struct Sums {
  model::FlatParameters::Gradients& gradients;
  const model::FlatParameters& parameters;  // of this layout
  Tally tally;
  double scale = 0;  // from the sums to the mean
  // Sums of squares of the flat buffers, where known; none with kPresent, which changes the sums.
  std::span<const std::optional<double>> squares{};
  std::string compression{};           // describe() of the compression that made the sums, for messages
  std::function<NotFinite()> whose{};  // called when a sum is not finite: where that came from
  std::string of = "all shards";       // what was added up, for messages
};

/// From the sums over the shards of `tally`, which has a weight, to their mean, before clipping.
[[nodiscard]] double scale_of(const Tally& tally, Divisor divisor);

/// The first slot, over all buffers in order, whose gradient is not finite; none when all are.
[[nodiscard]] std::optional<std::size_t> first_not_finite(const model::FlatParameters::Gradients& gradients,
                                                          const model::FlatParameters& parameters);
/// The slot with this number, counted over all buffers in order.
[[nodiscard]] const model::ParameterSlot& slot_of(const model::FlatParameters& parameters, std::size_t number);

/// Norm, clipping and all figures of the mean; kPresent changes the sums. Throws RunError naming the parameter when a
/// sum is not finite, and before it the replicas whose loss was not. `step`: for messages.
[[nodiscard]] MeanGradient mean_of(const Sums& sums, const MeanOptions& options, std::int64_t step);

/// Throws RunError when the shards had no valid row.
void require_rows(const Tally& tally, std::int64_t step);

/// The coefficient of a gradient of norm `norm`, as torch's clip_grad_norm_: max_norm / (norm + 1e-6), at most 1.
[[nodiscard]] double clip_coefficient(const std::optional<double>& max_norm, double norm);

/// Euclidean norm of all gradients together. `squares`: the sum of squares of each flat buffer, where it is known.
[[nodiscard]] double norm_of(const model::FlatParameters::Gradients& gradients, const model::FlatParameters& parameters,
                             std::span<const std::optional<double>> squares = {});

}  // namespace tandem::sync
