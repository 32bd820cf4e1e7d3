// sync/sparse_sum.h: sums of sparse gradients of one parameter, with the same bits on any topology: rows are added in
// the order in which the gradients are given.
//
// Threads: any; sum_sparse_over_shards() is collective and waits for all members until `limits`.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/TensorOptions.h>

#include <cstdint>
#include <vector>

#include "tandem/comm/group.h"
#include "tandem/sync/strategy_options.h"

namespace tandem::sync {

/// `shards`: this member's shards' gradients, in order; an undefined one means that the shard had none. Returns a
/// coalesced sparse tensor of `shape`, each row the sum over the shards of all members in their order, or an undefined
/// tensor when no shard of the run had one.
[[nodiscard]] at::Tensor sum_sparse_over_shards(const std::vector<at::Tensor>& shards,
                                                const std::vector<std::int64_t>& shape,
                                                const at::TensorOptions& options, comm::Group& group,
                                                const Limits& limits);

struct SparseRows {
  at::Tensor gradient;  // sparse, perhaps not coalesced: see Contribution; undefined: none
  double weight = 1;
};

/// Each row is the sum over the gradients in their order; undefined when none has one. Its mean is `1 / total` times it
/// by the total weight (kByCount); with kByIndex the sum is scaled so that the same factor gives the mean by the weight
/// of the gradients that have the row.
[[nodiscard]] at::Tensor sum_rows(const std::vector<SparseRows>& gradients, const std::vector<std::int64_t>& shape,
                                  SparseMean mean, double total);

/// A replica's shards one after the other, as one sparse tensor that is not coalesced; undefined when none has one.
[[nodiscard]] at::Tensor join_shards(const std::vector<at::Tensor>& shards, const std::vector<std::int64_t>& shape);

}  // namespace tandem::sync
