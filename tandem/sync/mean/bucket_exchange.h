// sync/bucket_exchange.h: sums flat gradients over a group in buckets, each as soon as the backward pass has made it.
//
// A bucket is a run of neighbouring parameters of at least kBucketBytes; much larger runs are summed in pieces. The
// bucket of the last parameters, which a backward pass mostly reaches first, is smaller, and that of the first ones may
// be. Every member starts the buckets in the same order, whichever of its gradients come first: at the first step from
// the last parameter to the first, as backward passes go, afterwards in the order in which those of member 0 were ready
// at the first step. A bucket that is not ready when the pass ends, because a loss did not reach it, is started then.
// Elements are summed as in one piece, so the bits are the same.
//
// After PyTorch's DistributedDataParallel (Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data
// Parallel Training"), whose buckets this resembles. Where a group does not go on alone (Group::goes_on_alone()) there
// is nothing to gain: then there are no buckets, and each flat buffer is summed in one piece when the passes are over.
//
// Threads: the replica's, and reached() on the thread that runs its backward pass. Blocking: wait() only.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tandem/base/clock.h"
#include "tandem/comm/group.h"
#include "tandem/model/flat_parameters.h"

namespace tandem::sync {

/// Large enough for a network's bandwidth, small enough for several in one backward pass.
inline constexpr std::int64_t kBucketBytes = std::int64_t{4} << 20, kFirstBucketBytes = std::int64_t{1} << 20;

class BucketExchange {
 public:
  /// Neither is owned. The buckets depend on the parameters and the group's kind alone.
  BucketExchange(model::FlatParameters& parameters, comm::Group& group);
  ~BucketExchange() { parameters_.on_reached({}); }
  BucketExchange(const BucketExchange&) = delete;
  BucketExchange& operator=(const BucketExchange&) = delete;

  /// The next backward pass is the last of this step, and fills `gradients`: buckets are started while it runs. Nothing
  /// may write to a gradient after the pass has reached it.
  void begin_last_pass(model::FlatParameters::Gradients& gradients);
  /// The passes are over and `gradients` complete, presence flags included: starts whatever was not.
  void start_rest(model::FlatParameters::Gradients& gradients);
  /// Runs `start`, which starts more of the step's collectives. A failure there fails all sums that are under way, so
  /// the error names the first of them.
  void start_others(const std::function<void()>& start);
  /// Elements of a flat buffer that were summed in one piece, and the bucket that the piece is part of.
  struct Piece {
    std::size_t buffer = 0;
    model::Elements elements, bucket;
  };
  using OnSummed = std::function<void(const Piece&)>;
  /// Returns when all sums are in place. Calls `on_summed` for each piece of a bucket as soon as its sum is in place,
  /// not for buffers that are summed without buckets. Waits are in the order of the starts, so call this before waiting
  /// for what was started later. Errors name the parameters.
  void wait(const Limits& limits, const OnSummed& on_summed);
  /// To be called when all of the step's collectives have been waited for. Collective at the first step.
  void end_step(const Limits& limits);

  [[nodiscard]] std::size_t buckets() const { return buckets_.size(); }
  /// Sizes of the buckets, in the order of their starts.
  [[nodiscard]] std::vector<std::int64_t> bucket_bytes() const;
  /// Time from the start of this step's first sum until `now`; zero when none has been started.
  [[nodiscard]] double seconds_under_way(Clock::time_point now) const {
    return pending_.empty() ? 0 : std::chrono::duration<double>(now - first_start_).count();
  }

 private:
  struct Bucket {
    std::size_t buffer = 0, parameters = 0;
    model::Elements elements;
    std::size_t missing = 0;  // of its parameters, in this pass
  };
  void cut(std::size_t buffer);
  void reached(std::size_t buffer, std::size_t slot);
  void start_next();
  [[nodiscard]] std::int64_t elements_in(std::int64_t bytes, std::size_t buffer) const;
  void start(const at::Tensor& part);
  [[nodiscard]] std::string words_of(std::size_t place) const;

  model::FlatParameters& parameters_;
  comm::Group& group_;
  std::vector<Bucket> buckets_;                      // in the order of their starts
  std::vector<std::vector<std::size_t>> bucket_of_;  // by buffer and slot
  std::vector<std::size_t> ready_order_;             // of this step, as the next
  std::vector<Piece> pieces_;                        // by place among the sums
  model::FlatParameters::Gradients* gradients_ = nullptr;
  std::size_t started_ = 0;
  std::vector<comm::Pending> pending_;
  Clock::time_point first_start_{};  // of pending_
  enum class Order { kGuessed, kAgreed } order_ = Order::kGuessed;
};

}  // namespace tandem::sync
