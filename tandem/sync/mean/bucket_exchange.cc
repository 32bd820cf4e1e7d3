#include "tandem/sync/mean/bucket_exchange.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "tandem/base/check.h"
#include "tandem/base/equal_parts.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::sync {

// Plan: the constructor cuts the flat buffers into buckets. During the last pass of a step, autograd calls reached()
// for each parameter; when the next bucket in order is complete, its pieces are started (start_next). After the pass,
// start_rest() starts what is missing, and wait() waits for all in the order of their starts, which all members share.
// At the end of the first step, end_step() sorts the buckets by the order in which member 0's were ready.
BucketExchange::BucketExchange(model::FlatParameters& parameters, comm::Group& group)
    : parameters_(parameters), group_(group), bucket_of_(parameters.buffers().size()) {
  if (!group.goes_on_alone() || group.size() == 1) return;
  for (std::size_t b = parameters.buffers().size(); b-- > 0;) {
    const model::FlatBuffer& buffer = parameters.buffers()[b];
    bucket_of_[b].resize(buffer.slots.size());
    if (buffer.sparse) continue;
    cut(b);
  }
}

std::int64_t BucketExchange::elements_in(std::int64_t bytes, std::size_t buffer) const {
  return bytes / static_cast<std::int64_t>(parameters_.buffers()[buffer].values.element_size());
}

// Goes from the last parameter to the first. A bucket ends where its first parameter begins, so that padding between
// parameters belongs to a bucket, too.
void BucketExchange::cut(std::size_t b) {
  const std::vector<model::ParameterSlot>& slots = parameters_.buffers()[b].slots;
  std::int64_t end = parameters_.buffers()[b].values.numel();
  std::size_t end_slot = slots.size();
  for (std::size_t s = slots.size(); s-- > 0;) {
    bucket_of_[b][s] = buckets_.size();
    const std::int64_t enough = elements_in(buckets_.empty() ? kFirstBucketBytes : kBucketBytes, b);
    if (s > 0 && end - slots[s].offset < enough) continue;
    buckets_.push_back(
        {.buffer = b, .parameters = end_slot - s, .elements = {s == 0 ? 0 : slots[s].offset, end}, .missing = 0});
    end = slots[s].offset;
    end_slot = s;
  }
}

std::vector<std::int64_t> BucketExchange::bucket_bytes() const {
  std::vector<std::int64_t> bytes;
  for (const Bucket& bucket : buckets_) {
    const auto each = static_cast<std::int64_t>(parameters_.buffers()[bucket.buffer].values.element_size());
    bytes.push_back(bucket.elements.size() * each);
  }
  return bytes;
}

void BucketExchange::begin_last_pass(model::FlatParameters::Gradients& gradients) {
  TANDEM_CHECK(started_ == 0 && pending_.empty(), "a step's exchange before the last one's end");
  if (buckets_.empty()) return;
  gradients_ = &gradients;
  ready_order_.clear();
  for (Bucket& bucket : buckets_) bucket.missing = bucket.parameters;
  parameters_.on_reached([this](std::size_t buffer, std::size_t slot) { reached(buffer, slot); });
}

// Called on the thread of the backward pass. A gradient of a bucket that was started already would change numbers that
// are on the wire, so it is an error.
void BucketExchange::reached(std::size_t buffer, std::size_t slot) {
  const std::size_t index = bucket_of_[buffer][slot];
  Bucket& bucket = buckets_[index];
  if (bucket.missing == 0) {
    throw RunError(
        concat("the gradient of '", parameters_.buffers()[buffer].slots[slot].name,
               "' was added to after its sum over all replicas had begun: a backward pass must be the last of "
               "its step; use accumulate() for those before it"));
  }
  if (--bucket.missing > 0) return;
  ready_order_.push_back(index);
  while (started_ < buckets_.size() && buckets_[started_].missing == 0) start_next();
}

// Starts the sums of the next bucket, in pieces of about kBucketBytes each.
void BucketExchange::start_next() {
  const Bucket& bucket = buckets_[started_++];
  const at::NoGradGuard no_grad;
  const std::int64_t usual = elements_in(kBucketBytes, bucket.buffer), all = bucket.elements.size();
  const auto pieces = static_cast<int>(std::max<std::int64_t>(1, (all + usual / 2) / usual));
  const EqualParts parts(all, pieces);
  for (int piece = 0; piece < pieces; ++piece) {
    const model::Elements elements{bucket.elements.begin + parts.begin(piece),
                                   bucket.elements.begin + parts.begin(piece + 1)};
    pieces_.push_back({.buffer = bucket.buffer, .elements = elements, .bucket = bucket.elements});
    start(gradients_->flat[bucket.buffer].narrow(0, elements.begin, elements.size()));
  }
}

void BucketExchange::start(const at::Tensor& part) {
  if (pending_.empty()) first_start_ = Clock::now();
  try {
    pending_.push_back(group_.start_all_reduce(part));
  } catch (const RunError&) {
    rethrow_with(words_of(pending_.size()));
  }
}

// Names the `place`-th sum of a step for an error: the pieces of buckets come first, then the rest of each flat buffer.
std::string BucketExchange::words_of(std::size_t place) const {
  const auto words = [&](const char* what, const std::string& first, const std::string& last) {
    return concat("the sum of ", what, " ", first, first == last ? "" : concat("..", last), ": ");
  };
  const std::vector<model::FlatBuffer>& buffers = parameters_.buffers();
  if (place < pieces_.size()) {
    const model::Elements& bucket = pieces_[place].bucket;
    std::vector<std::string> names;
    for (const model::ParameterSlot& slot : buffers[pieces_[place].buffer].slots) {
      if (slot.offset >= bucket.begin && slot.offset < bucket.end) names.push_back(slot.name);
    }
    return words("the gradients", names.front(), names.back());
  }
  std::size_t left = place - pieces_.size();
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    if (!gradients_->flat[b].defined() || left-- > 0) continue;
    return words(buckets_.empty() ? "the gradients" : "the presence flags", buffers[b].slots.front().name,
                 buffers[b].slots.back().name);
  }
  return "";
}

void BucketExchange::start_rest(model::FlatParameters::Gradients& gradients) {
  parameters_.on_reached({});
  gradients_ = &gradients;
  while (started_ < buckets_.size()) start_next();
  for (std::size_t b = 0; b < gradients.flat.size(); ++b) {
    if (!gradients.flat[b].defined()) continue;
    const at::Tensor rest = buckets_.empty() ? gradients.flat[b] : gradients.presence[b];
    start(rest);
  }
}

void BucketExchange::start_others(const std::function<void()>& start) {
  try {
    start();
  } catch (const RunError&) {
    rethrow_with(pending_.empty() ? "" : words_of(0));
  }
}

void BucketExchange::wait(const Limits& limits, const OnSummed& on_summed) {
  for (std::size_t place = 0; place < pending_.size(); ++place) {
    try {
      pending_[place].wait(limits);
    } catch (const RunError&) {
      rethrow_with(words_of(place));
    }
    if (place < pieces_.size()) on_summed(pieces_[place]);
  }
  pending_.clear();
  pieces_.clear();
  started_ = 0;
}

// Buckets that no pass completed keep their order, behind the others.
void BucketExchange::end_step(const Limits& limits) {
  if (buckets_.empty() || order_ == Order::kAgreed) return;
  std::vector<std::size_t> order = ready_order_;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    if (std::ranges::find(order, i) == order.end()) order.push_back(i);
  }
  const at::Tensor agreed = at::empty({std::ssize(order)}, at::kLong);
  std::ranges::copy(order, agreed.data_ptr<std::int64_t>());
  group_.broadcast(agreed, 0, limits);
  std::vector<Bucket> sorted;
  std::vector<std::size_t> new_place(buckets_.size());
  for (std::size_t place = 0; place < buckets_.size(); ++place) {
    const auto from = static_cast<std::size_t>(agreed.const_data_ptr<std::int64_t>()[place]);
    new_place[from] = place;
    sorted.push_back(buckets_[from]);
  }
  for (std::size_t b = 0; b < bucket_of_.size(); ++b) {
    if (parameters_.buffers()[b].sparse) continue;
    for (std::size_t& place : bucket_of_[b]) place = new_place[place];
  }
  buckets_ = std::move(sorted);
  order_ = Order::kAgreed;
}

}  // namespace tandem::sync
