#include "tandem/sync/mean/early_update.h"

#include <ATen/ATen.h>

#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/concurrency/trace.h"

namespace tandem::sync {
namespace {

constexpr const char* kTotals = "the sum of the rows of all ranks: ";

}  // namespace

EarlyUpdate::EarlyUpdate(Replica& replica, comm::Group& group)
    : replica_(replica), group_(group), totals_(at::zeros({2}, at::kDouble)) {
  for (const model::FlatBuffer& buffer : replica.parameters().buffers())
    present_.push_back(at::zeros({std::ssize(buffer.slots)}, at::kFloat));
}

void EarlyUpdate::offer(double weight, double left) {
  TANDEM_CHECK(!pending_, "a step's weight before the last one's was waited for");
  auto* totals = totals_.mutable_data_ptr<double>();
  totals[0] = weight;
  totals[1] = left;
  try {
    pending_ = group_.start_all_reduce(totals_);
  } catch (const RunError&) {
    rethrow_with(kTotals);
  }
}

void EarlyUpdate::wait_for_totals(const Limits& limits) {
  TANDEM_CHECK(pending_, "a step's weight that was not offered");
  comm::Pending pending = *std::exchange(pending_, std::nullopt);
  try {
    pending.wait(limits);
  } catch (const RunError&) {
    rethrow_with(kTotals);
  }
}

// Plan of a step: offer() has started the sum of all rows. When all sums of the step are started, begin() waits for
// that one and decides whether parts may be updated early: not when a rank has left, nor off the CPU. Then each piece
// whose parameters are surely present is updated when its sum has come (summed()). When all sums have come and are
// finite, end_parts() updates the rest. If anything fails on the way, undo_parts() takes all parts back.
MeanGradient EarlyUpdate::step(GradientMean& gradients, double lr_factor, std::int64_t step, const Limits& limits) {
  model::Optimizer& optimizer = replica_.optimizer();
  // Which parameters this rank's loss reached is noted before the flags are summed, since that is in place.
  for (std::size_t b = 0; b < present_.size(); ++b)
    if (const at::Tensor& flags = gradients.sums().presence[b]; flags.defined()) present_[b].copy_(flags);
  try {
    const MeanGradient mean = gradients.form(lr_factor, step, limits,
                                             {.on_started = [&] { begin(lr_factor, limits); },
                                              .on_summed =
                                                  [&](const BucketExchange::Piece& piece) {
                                                    if (scale_) summed(gradients.sums(), piece);
                                                  }});
    const Span span("optimizer");
    if (scale_) {
      TANDEM_CHECK(mean.scale == *scale_ && mean.lr_factor == lr_factor, "buckets were updated with ", *scale_, " and ",
                   lr_factor, ", the mean has ", mean.scale, " and ", mean.lr_factor);
      optimizer.end_parts(gradients.sums());
    } else {
      optimizer.step(gradients.sums(), mean.scale, mean.lr_factor);
    }
    return mean;
  } catch (...) {
    optimizer.undo_parts();
    throw;
  }
}

// Decides whether parts of this step are updated early: scale_ is set then. All ranks have the same totals, but only
// those whose parameters lie on the CPU update early; the bits are the same.
void EarlyUpdate::begin(double lr_factor, const Limits& limits) {
  scale_.reset();
  wait_for_totals(limits);
  const double weight = totals_.const_data_ptr<double>()[0], left = totals_.const_data_ptr<double>()[1];
  if (left > 0 || !(weight > 0) || !replica_.placement().device.is_cpu()) return;
  scale_ = 1 / weight;
  replica_.optimizer().begin_parts(*scale_, lr_factor);
}

// A piece may be updated when every parameter of its bucket is present for sure, since presence decides whether a
// parameter is updated at all.
void EarlyUpdate::summed(const model::FlatParameters::Gradients& sums, const BucketExchange::Piece& piece) {
  if (piece.elements.size() == 0) return;  // parameters without an element
  const std::vector<model::ParameterSlot>& slots = replica_.parameters().buffers()[piece.buffer].slots;
  const auto* present = present_[piece.buffer].const_data_ptr<float>();
  for (std::size_t s = 0; s < slots.size(); ++s) {
    const bool is_inside = slots[s].offset >= piece.bucket.begin && slots[s].offset < piece.bucket.end;
    if (is_inside && present[s] == 0) return;  // unknown until the flags come: updated at the end
  }
  const Span span("optimizer");
  replica_.optimizer().step_part(sums, piece.buffer, piece.elements);
}

}  // namespace tandem::sync
