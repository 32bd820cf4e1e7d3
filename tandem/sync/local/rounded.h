// sync/local/rounded.h: differences of parameters in 8 or 4 bits an element, for links on which bytes are dear.
//
// Elements come in blocks of 256. A block has a float32 scale, the largest magnitude in it divided by 127 or 7; an
// element is rounded to a multiple of its block's scale, half to even. Who adds what was rounded off to the next
// difference (error feedback, Seide et al. 2014, "1-Bit Stochastic Gradient Descent") loses nothing in the long run.
//
// Threads: any. Waits for nobody.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tandem/sync/strategy_options.h"

namespace tandem::sync {

/// The bytes of `count` elements as they travel; `wire` is kInt8 or kInt4.
[[nodiscard]] std::int64_t rounded_bytes(std::int64_t count, Wire wire);

/// Rounds `values`, a flat float tensor. Returns a uint8 tensor [rounded_bytes()] on the same device: all scales, then
/// the codes; in 4 bits, two elements a byte, the first in its lower half.
[[nodiscard]] at::Tensor rounded(const at::Tensor& values, Wire wire);

/// The `count` float elements of what rounded() gave. Throws RunError when `bytes` has not as many as they need.
[[nodiscard]] at::Tensor unrounded(const at::Tensor& bytes, std::int64_t count, Wire wire);

}  // namespace tandem::sync
