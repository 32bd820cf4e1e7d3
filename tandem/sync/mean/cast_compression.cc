#include "tandem/sync/mean/cast_compression.h"

#include <ATen/ATen.h>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::sync {
namespace {

class CastCompression final : public GradientCompression {
 public:
  CastCompression(const CastOptions& options, std::span<const GradientBucket> buckets, comm::Group& group)
      : dtype_(options.to) {
    if (dtype_ != at::kBFloat16 && dtype_ != at::kHalf)
      throw ConfigError(concat("gradients cannot be compressed to ", dtype_, "; use BFloat16 or Half"));
    for (const GradientBucket& bucket : buckets)
      wire_.push_back(group.allocate(bucket.values.numel(), dtype_, bucket.values.device()));
  }

  // Where the group works without the caller (Group::goes_on_alone()), a bucket is cast while the one before travels.
  void reduce(std::span<GradientBucket> buckets, comm::Group& group, const Limits& limits) override {
    pending_.clear();
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      wire_[b].copy_(buckets[b].values);
      pending_.push_back(group.start_all_reduce(wire_[b]));
    }
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      pending_[b].wait(limits);
      buckets[b].values.copy_(wire_[b]);
    }
  }

  [[nodiscard]] std::string describe() const override {
    return concat("a cast to ", dtype_, ", whose largest number is ", dtype_ == at::kHalf ? "65504" : "3.39e38");
  }

 private:
  const at::ScalarType dtype_;
  std::vector<at::Tensor> wire_;  // one a bucket
  std::vector<comm::Pending> pending_;
};

}  // namespace

MakeCompression cast_compression(const CastOptions& options) {
  return [options](std::span<const GradientBucket> buckets, [[maybe_unused]] comm::Group& group) {
    return std::make_unique<CastCompression>(options, buckets, group);
  };
}

}  // namespace tandem::sync
