// sync/shard_gradients.h: sums the gradients of a replica's shards along the fixed tree.
//
// Each shard's backward pass accumulates into a zeroed set of flat gradients of its own; finished ones are added
// pairwise in the tree's association, so at most depth + 1 sets are alive. The sum ends in the first set, which lies in
// the group's memory. The buffers of the module (batch norm) are added in the same way: every shard starts from the
// buffers as they were at the begin of the step.
//
// Threads: single-thread, the replica's.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "tandem/base/summation_tree.h"
#include "tandem/sync/replica.h"

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
  /// The first shard of this replica whose loss was not finite in this step; none when all were.
  [[nodiscard]] std::optional<int> shard_without_loss() const { return without_loss_; }
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
  std::optional<int> without_loss_;
  int done_ = 0;  // shards finished in this step
  bool in_pass_ = false;
};

}  // namespace tandem::sync
