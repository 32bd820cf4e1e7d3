// sync/cast_compression.h: gradients travel as bfloat16 or float16.
//
// As PyTorch's fp16_compress_hook and bf16_compress_hook, except that a group adds in float32 and rounds the sum once.
// Nothing is remembered: the rounding errors of a step are lost. A number that overflows in float16 arrives as an
// infinity.
//
// Threads, blocking, errors: as gradient_compression.h says.
#pragma once
#include "tandem/sync/mean/gradient_compression.h"

namespace tandem::sync {

struct CastOptions {
  at::ScalarType to = at::kBFloat16;  // or kHalf, which has more digits and overflows at 65504
};
/// Throws ConfigError, when the compression is made, for another dtype.
[[nodiscard]] MakeCompression cast_compression(const CastOptions& options);

}  // namespace tandem::sync
