// sync/gradient_mean.h: the mean gradient over all shards of the run, formed once: a sum along the fixed tree, one
// division by the total weight, and at most one clipping by the global norm. The same bits on every replica and on any
// number of them.
//
// A replica that has no more shards to offer goes on taking part with form_without_mine(), because the others' sums
// need all members; the mean is then over the gradients that the others offer.
//
// With a compression (gradient_compression.h) the sums are approximate. They are not made along that tree and depend on
// which replica holds which shards, but have the same bits on every replica. Gradients then travel when all passes are
// over.
//
// The sums stay in this object's memory (sums()), not divided: the optimizer multiplies them by MeanGradient::scale as
// it reads them, which saves a pass over all gradients. They are valid until the next open().
//
// Threads: single-thread, the replica's. Blocking: form...() waits for all replicas until `limits`.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tandem/comm/group.h"
#include "tandem/model/norm.h"
#include "tandem/sync/mean/bucket_exchange.h"
#include "tandem/sync/mean/counted_group.h"
#include "tandem/sync/mean/gradient_compression.h"
#include "tandem/sync/mean/mean_of_sums.h"
#include "tandem/sync/replica.h"

namespace tandem::sync {

/// Functions that are called while a step's sums are under way, on the replica's thread; each may be empty.
struct WhileSumsCome {
  std::function<void()> on_started;    // all sums are started; sums that were started before may be waited for now
  BucketExchange::OnSummed on_summed;  // a piece of a bucket has come
};

class GradientMean {
 public:
  /// Neither `replica` nor `group` is owned; the group's members are the run's replicas in order.
  /// Throws ConfigError when max_grad_norm is not positive, or an option of the compression is out of range.
  GradientMean(Replica& replica, comm::Group& group, const MeanOptions& options,
               const MakeCompression& compression = {});

  /// A shard's pass; see Strategy.
  void open(int shard) { gradients_.open(shard); }
  void close(double weight, double loss) { gradients_.close(weight, loss); }
  /// Between open() and close() of the replica's only shard: the backward pass that follows is the step's last, and
  /// gradients may be summed over the replicas while it runs.
  void begin_last_pass() {
    if (travel_as_they_come()) exchange_.begin_last_pass(gradients_.sum());
  }
  /// Whether sums come in buckets, one after the other, and the mean is 1 / weight times them, whatever comes later.
  [[nodiscard]] bool means_come_in_buckets() const {
    return travel_as_they_come() && exchange_.buckets() > 0 && !options_.max_grad_norm &&
           options_.divisor == Divisor::kTotal;
  }

  /// After the last shard: forms the mean over the run, and the module's buffers for the next step. Throws RunError
  /// when no row was valid, or when a sum is not finite, naming the parameter, and the replicas as MeanOptions::check
  /// says; the parameters are then as they were. `step`: for messages.
  [[nodiscard]] MeanGradient form(double lr_factor, std::int64_t step, const Limits& limits,
                                  const WhileSumsCome& meanwhile = {});
  /// Takes this replica's part in the others' form(). Returns nothing once no replica offers anything.
  [[nodiscard]] std::optional<MeanGradient> form_without_mine(std::int64_t step, const Limits& limits,
                                                              const WhileSumsCome& meanwhile = {});

  [[nodiscard]] model::FlatParameters::Gradients& sums() { return gradients_.sum(); }
  /// The compression; null when gradients travel as they are.
  [[nodiscard]] GradientCompression* compression() { return compression_.get(); }
  /// The group for further collectives of a step, so that MeanGradient::bytes has them.
  [[nodiscard]] comm::Group& group() { return group_; }
  /// Bytes of what is summed as one, padding included: buckets, or flat buffers. None in a group of one.
  [[nodiscard]] std::vector<std::int64_t> bucket_bytes() const;

 private:
  [[nodiscard]] bool travel_as_they_come() const { return !compression_ && options_.check == GradientCheck::kSum; }
  [[nodiscard]] MeanGradient reduce(std::int64_t step, const Limits& limits, const WhileSumsCome& meanwhile);
  void all_reduce(const Limits& limits, const WhileSumsCome& meanwhile);
  void take_squares(const BucketExchange::Piece& piece);
  void compress(double scale, const Limits& limits);
  void gather_sparse(const Limits& limits);
  void average_buffers(double shards);
  [[nodiscard]] NotFinite where_not_finite(const Limits& limits);

  Replica& replica_;
  CountedGroup group_;
  const MeanOptions options_;
  ShardGradients gradients_;
  BucketExchange exchange_;
  std::vector<GradientBucket> buckets_;  // of the compression
  std::unique_ptr<GradientCompression> compression_;
  std::vector<comm::Pending> pending_;
  std::vector<std::optional<model::SumOfSquaresByParts>> squares_;  // of buffers that are summed in buckets
  std::vector<std::optional<double>> known_squares_;                // by buffer, of this step
  double meanwhile_seconds_ = 0;                                    // of this step, for what was done with what came
  std::optional<std::size_t> bad_;  // slot of this replica's part, where each is looked at
};

}  // namespace tandem::sync
