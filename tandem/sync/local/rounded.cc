#include "tandem/sync/local/rounded.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <limits>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::sync {
namespace {

constexpr std::int64_t kBlock = 256;  // elements

std::int64_t blocks_of(std::int64_t count) { return (count + kBlock - 1) / kBlock; }

// The largest code; codes go from minus that to that.
int largest_code(Wire wire) {
  TANDEM_CHECK(wire != Wire::kFull, "a full wire has no codes");
  return wire == Wire::kInt8 ? 127 : 7;
}

std::int64_t code_bytes(std::int64_t count, Wire wire) {
  const std::int64_t codes = blocks_of(count) * kBlock;
  return wire == Wire::kInt8 ? codes : codes / 2;
}

constexpr int kFourBits = 16;   // values of four bits
constexpr int kZeroOfFour = 8;  // four bits hold a code plus this

}  // namespace

std::int64_t rounded_bytes(std::int64_t count, Wire wire) {
  return blocks_of(count) * static_cast<std::int64_t>(sizeof(float)) + code_bytes(count, wire);
}

at::Tensor rounded(const at::Tensor& values, Wire wire) {
  const at::NoGradGuard no_grad;
  const std::int64_t count = values.numel(), blocks = blocks_of(count);
  const int largest = largest_code(wire);
  const at::Tensor block = at::constant_pad_nd(values, {0, blocks * kBlock - count}).view({blocks, kBlock});
  const at::Tensor scales = block.abs().amax(1, true).div_(largest);
  // A block of zeros has codes of zero, whatever its scale is divided by.
  at::Tensor codes = block.div(scales.clamp_min(std::numeric_limits<float>::min())).round_().clamp_(-largest, largest);
  if (wire == Wire::kInt4) {
    const at::Tensor halves = codes.add_(kZeroOfFour).to(at::kByte).view({-1, 2});
    codes = halves.select(1, 0) + halves.select(1, 1) * kFourBits;
  } else {
    codes = codes.to(at::kChar).view(at::kByte);
  }
  return at::cat({scales.contiguous().view(at::kByte).reshape({-1}), codes.reshape({-1})});
}

at::Tensor unrounded(const at::Tensor& bytes, std::int64_t count, Wire wire) {
  const at::NoGradGuard no_grad;
  if (bytes.scalar_type() != at::kByte || bytes.dim() != 1 || bytes.numel() != rounded_bytes(count, wire)) {
    throw RunError(concat("a replica sent ", bytes.sizes(), " of ", c10::toString(bytes.scalar_type()), " for ", count,
                          " rounded elements, which are ", rounded_bytes(count, wire), " bytes; do all replicas have ",
                          "the same local_steps options?"));
  }
  const std::int64_t blocks = blocks_of(count), scale_bytes = blocks * static_cast<std::int64_t>(sizeof(float));
  // The copy begins at an address that floats may have.
  const at::Tensor scales = bytes.narrow(0, 0, scale_bytes).clone().view(at::kFloat).view({blocks, 1});
  at::Tensor codes = bytes.narrow(0, scale_bytes, bytes.numel() - scale_bytes);
  if (wire == Wire::kInt4)
    codes = at::stack({codes.remainder(kFourBits), codes.floor_divide(kFourBits)}, 1).to(at::kFloat).sub_(kZeroOfFour);
  else
    codes = codes.view(at::kChar).to(at::kFloat);
  return codes.view({blocks, kBlock}).mul_(scales).view({-1}).narrow(0, 0, count);
}

}  // namespace tandem::sync
