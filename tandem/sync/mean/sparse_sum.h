// sync/sparse_sum.h: the sum of sparse gradients over all shards of the run, with the same bits on any topology.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/TensorOptions.h>

#include <cstdint>
#include <vector>

#include "tandem/comm/group.h"

namespace tandem::sync {

/// `shards`: this member's shards' gradients of one parameter, in order; an undefined one means that the shard had
/// none. Returns a coalesced sparse tensor of `shape`, each row the sum over the shards in their order, or an undefined
/// tensor when no shard of the run had one. Collective: every member calls it.
[[nodiscard]] at::Tensor sum_sparse_over_shards(const std::vector<at::Tensor>& shards,
                                                const std::vector<std::int64_t>& shape,
                                                const at::TensorOptions& options, comm::Group& group,
                                                const Limits& limits);

/// The same for parts that are all here: each has its rows, all different, and their values. At least one part.
[[nodiscard]] at::Tensor add_in_order(const std::vector<at::Tensor>& indices, const std::vector<at::Tensor>& values,
                                      const std::vector<std::int64_t>& shape);

}  // namespace tandem::sync
