// sync/sparse_rows.h: the sum of several gradients of a sparse parameter, in the order in which they are given.
//
// Threads: any.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tandem/sync/strategy_options.h"

namespace tandem::sync {

struct SparseRows {
  at::Tensor gradient;  // sparse, perhaps not coalesced: see Contribution; undefined: none
  double weight = 1;
};

/// Each row is the sum over the gradients in their order; undefined when none has one. Its mean is `1 / total` times it
/// by the total weight (kByCount); with kByIndex it is scaled so that the same gives the mean by the weight of those
/// that have the row.
[[nodiscard]] at::Tensor sum_rows(const std::vector<SparseRows>& gradients, const std::vector<std::int64_t>& shape,
                                  SparseMean mean, double total);

/// A replica's shards one after the other, as one sparse tensor that is not coalesced; undefined when none has one.
[[nodiscard]] at::Tensor join_shards(const std::vector<at::Tensor>& shards, const std::vector<std::int64_t>& shape);

}  // namespace tandem::sync
