#include "tandem/sync/mean/top_k_compression.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::sync {
namespace {

class TopKCompression final : public GradientCompression {
 public:
  TopKCompression(const TopKOptions& options, std::span<const GradientBucket> buckets);

  void reduce(std::span<GradientBucket> buckets, comm::Group& group, const Limits& limits) override;
  [[nodiscard]] std::string describe() const override;
  /// "memory.B": what bucket B's gradient has not sent yet, laid out as the bucket.
  [[nodiscard]] model::NamedTensors state() override;

 private:
  struct Chosen {
    at::Tensor indices, values;  // indices into the bucket
  };
  [[nodiscard]] Chosen choose(GradientBucket& bucket, at::Tensor& memory) const;

  const double share_;
  std::vector<at::Tensor> memory_;  // one a bucket
};

TopKCompression::TopKCompression(const TopKOptions& options, std::span<const GradientBucket> buckets)
    : share_(options.share) {
  if (!(share_ > 0 && share_ <= 1))
    throw ConfigError(concat("the share of the elements that travel is ", share_, "; give one in (0, 1]"));
  for (const GradientBucket& bucket : buckets) memory_.push_back(at::zeros_like(bucket.values));
}

// Adds the gradient to the memory, takes the largest elements of each parameter out of it, and leaves the rest there. A
// parameter that no member's loss reached is not updated in this step, so its memory stays as it is.
TopKCompression::Chosen TopKCompression::choose(GradientBucket& bucket, at::Tensor& memory) const {
  const bool is_small = bucket.values.numel() <= std::numeric_limits<std::int32_t>::max();
  std::vector<at::Tensor> indices{at::empty({0}, bucket.values.options().dtype(at::kLong))};
  for (std::size_t s = 0; s < bucket.slots.size(); ++s) {
    const model::ParameterSlot& slot = bucket.slots[s];
    if (!bucket.present[s] || slot.count == 0) continue;
    at::Tensor own = memory.narrow(0, slot.offset, slot.count);
    own.add_(bucket.values.narrow(0, slot.offset, slot.count));
    const auto count = std::max<std::int64_t>(1, std::llround(share_ * static_cast<double>(slot.count)));
    const at::Tensor largest = std::get<1>(own.abs().topk(count, /*dim=*/0, /*largest=*/true, /*sorted=*/false));
    indices.push_back(largest + slot.offset);
  }
  Chosen chosen{.indices = at::cat(indices), .values = {}};
  chosen.values = memory.index_select(0, chosen.indices);
  memory.index_fill_(0, chosen.indices, 0);
  if (is_small) chosen.indices = chosen.indices.to(at::kInt);
  return chosen;
}

// Members are added one after the other. The indices of one member are all different, so each sum has one order, and
// all members get the same bits.
void TopKCompression::reduce(std::span<GradientBucket> buckets, comm::Group& group, const Limits& limits) {
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const Chosen mine = choose(buckets[b], memory_[b]);
    const std::vector<at::Tensor> all_indices = group.all_gather(mine.indices, limits);
    const std::vector<at::Tensor> all_values = group.all_gather(mine.values, limits);
    at::Tensor& sum = buckets[b].values;
    sum.zero_();
    for (std::size_t member = 0; member < all_indices.size(); ++member) {
      const at::Tensor places = all_indices[member].to(at::kLong);
      sum.index_copy_(0, places, sum.index_select(0, places) + all_values[member]);
    }
  }
}

std::string TopKCompression::describe() const {
  return concat("a choice of the largest ", share_ * 100, " percent of each parameter's elements");
}

model::NamedTensors TopKCompression::state() {
  model::NamedTensors all;
  for (std::size_t b = 0; b < memory_.size(); ++b) all.emplace_back(concat("memory.", b), memory_[b]);
  return all;
}

}  // namespace

MakeCompression top_k_compression(const TopKOptions& options) {
  return [options](std::span<const GradientBucket> buckets, [[maybe_unused]] comm::Group& group) {
    return std::make_unique<TopKCompression>(options, buckets);
  };
}

}  // namespace tandem::sync
