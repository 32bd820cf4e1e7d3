#include "tandem/sync/mean/top_k_compression.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::sync {
namespace {

class TopKCompression final : public GradientCompression {
 public:
  TopKCompression(const TopKOptions& options, std::span<const GradientBucket> buckets) : share_(options.share) {
    if (!(share_ > 0 && share_ <= 1))
      throw ConfigError(concat("the share of the elements that travel is ", share_, "; give one in (0, 1]"));
    for (const GradientBucket& bucket : buckets) memory_.push_back(at::zeros_like(bucket.values));
  }

  // Members are added one after the other. The indices of one member are all different, so each sum has one order, and
  // all members get the same bits.
  void reduce(std::span<GradientBucket> buckets, comm::Group& group, const Limits& limits) override {
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      const auto [indices, values] = choose(buckets[b], memory_[b]);
      const std::vector<at::Tensor> all_indices = group.all_gather(indices, limits);
      const std::vector<at::Tensor> all_values = group.all_gather(values, limits);
      at::Tensor& sum = buckets[b].values;
      sum.zero_();
      for (std::size_t member = 0; member < all_indices.size(); ++member) {
        const at::Tensor places = all_indices[member].to(at::kLong);
        sum.index_copy_(0, places, sum.index_select(0, places) + all_values[member]);
      }
    }
  }

  [[nodiscard]] std::string describe() const override {
    return concat("a choice of the largest ", share_ * 100, " percent of each parameter's elements");
  }

  /// "memory.B": what bucket B's gradient has not sent yet, laid out as the bucket.
  [[nodiscard]] model::NamedTensors state() override {
    model::NamedTensors all;
    for (std::size_t b = 0; b < memory_.size(); ++b) all.emplace_back(concat("memory.", b), memory_[b]);
    return all;
  }

 private:
  // Adds the gradient to the memory, takes the largest elements of each parameter out of it, and leaves the rest there.
  // Returns their indices into the bucket, and the elements. A parameter that no member's loss reached is not updated
  // in this step, so its memory stays as it is.
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> choose(GradientBucket& bucket, at::Tensor& memory) const {
    const bool is_small = bucket.values.numel() <= std::numeric_limits<std::int32_t>::max();
    std::vector<at::Tensor> chosen{at::empty({0}, bucket.values.options().dtype(at::kLong))};
    for (std::size_t s = 0; s < bucket.slots.size(); ++s) {
      const model::ParameterSlot& slot = bucket.slots[s];
      if (!bucket.present[s] || slot.count == 0) continue;
      at::Tensor own = memory.narrow(0, slot.offset, slot.count);
      own.add_(bucket.values.narrow(0, slot.offset, slot.count));
      const auto count = std::max<std::int64_t>(1, std::llround(share_ * static_cast<double>(slot.count)));
      const at::Tensor largest = std::get<1>(own.abs().topk(count, /*dim=*/0, /*largest=*/true, /*sorted=*/false));
      chosen.push_back(largest + slot.offset);
    }
    const at::Tensor indices = at::cat(chosen), values = memory.index_select(0, indices);
    memory.index_fill_(0, indices, 0);
    return {is_small ? indices.to(at::kInt) : indices, values};
  }

  const double share_;
  std::vector<at::Tensor> memory_;  // one a bucket
};

}  // namespace

MakeCompression top_k_compression(const TopKOptions& options) {
  return [options](std::span<const GradientBucket> buckets, [[maybe_unused]] comm::Group& group) {
    return std::make_unique<TopKCompression>(options, buckets);
  };
}

}  // namespace tandem::sync
