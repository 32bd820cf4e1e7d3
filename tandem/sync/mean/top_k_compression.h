// sync/top_k_compression.h: of each parameter's gradient only the largest elements travel, with their places.
//
// Top-k sparsification with memory (Stich et al. 2018, "Sparsified SGD with Memory"; per parameter as in Lin et al.
// 2018, "Deep Gradient Compression", without its momentum correction and warm-up): what was not sent is added to the
// next step's gradient. Members choose different elements; each adds what all chose, in the order of the ranks, so that
// all have the same bits. A chosen element takes eight bytes as float32, and a member receives those of all others:
// with n members it is fewer bytes than a sum's while share * n is well below one.
//
// Threads, blocking, errors: as gradient_compression.h says.
#pragma once
#include "tandem/sync/mean/gradient_compression.h"

namespace tandem::sync {

struct TopKOptions {
  double share = 0.01;  // of the elements of each parameter, at least one; in (0, 1]
};
/// Throws ConfigError, when the compression is made, for another share.
[[nodiscard]] MakeCompression top_k_compression(const TopKOptions& options);

}  // namespace tandem::sync
