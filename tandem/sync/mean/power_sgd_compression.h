// sync/power_sgd_compression.h: gradients of matrices travel as two narrow ones.
//
// PowerSGD (Vogels et al. 2019, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization"). A
// gradient M of n x m becomes P = M Q, summed over the members and orthogonalised, and Q = M^T P, summed; P Q^T stands
// for the sum of all M. With `rank` columns (n + m) x rank numbers travel instead of n x m. The difference between a
// member's M and P Q^T, with its own Q, is added to its next gradient. Parameters of one dimension, and those that
// would shrink by less than `min_rate`, travel as they are. A convolution's kernel is a matrix with a row for each
// output channel.
//
// Orthogonalising and multiplying are done by every member alike, with equal bits where members have one LibTorch
// build, one instruction set and the same number of intra-op threads. DataParallel::require_same_state() tells.
//
// Threads, blocking, errors: as gradient_compression.h says.
#pragma once
#include "tandem/sync/mean/gradient_compression.h"

namespace tandem::sync {

struct PowerSgdOptions {
  std::int64_t rank = 1;                                    // columns of the narrow matrices
  std::int64_t start_step = 1000;                           // the steps before it are not compressed
  double min_rate = 2;                                      // parameters that would shrink by less travel as they are
  enum class Start { kWarm, kFresh } start = Start::kWarm;  // from the last step's Q, or from a new random one
  std::uint64_t seed = 0;                                   // of the random ones, the same on all ranks
};
/// Throws ConfigError, when the compression is made, listing every option that is out of range.
[[nodiscard]] MakeCompression power_sgd_compression(const PowerSgdOptions& options);

}  // namespace tandem::sync
