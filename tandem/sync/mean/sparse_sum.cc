#include "tandem/sync/mean/sparse_sum.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace tandem::sync {
namespace {

// Note [Sparse sums]
// coalesce() may add equal indices in any order, so it is used only where the order is fixed by the input alone: within
// a shard, whose gradient is the same tensor on any topology. Across shards, one shard after the other is added: a
// shard's coalesced indices are all different, so each row of the result is a sum in the order of the shards. There is
// at least one part, each with its rows, all different, and their values.
at::Tensor add_in_order(const std::vector<at::Tensor>& indices, const std::vector<at::Tensor>& values,
                        const std::vector<std::int64_t>& shape) {
  at::Tensor all = at::cat(indices);
  const auto [unique, inverse, counts] = at::_unique2(all, /*sorted=*/true, /*return_inverse=*/true);
  std::vector<std::int64_t> sizes = values.front().sizes().vec();
  sizes[0] = unique.numel();
  at::Tensor sum = at::zeros(sizes, values.front().options());
  std::int64_t from = 0;
  for (std::size_t shard = 0; shard < indices.size(); ++shard) {
    const std::int64_t count = indices[shard].numel();
    const at::Tensor rows = inverse.narrow(0, from, count);
    sum.index_copy_(0, rows, sum.index_select(0, rows) + values[shard]);
    from += count;
  }
  return at::_sparse_coo_tensor_unsafe(unique.unsqueeze(0), sum, shape)._coalesced_(true);
}

// Cuts a gradient of several shards, one behind the other, into the shards. A shard's rows ascend, so another shard
// begins where they do not. Shards whose rows happen to ascend across the border have no row in common, and may be
// added as one.
void append_shards(const at::Tensor& gradient, std::vector<at::Tensor>& indices, std::vector<at::Tensor>& values) {
  const at::Tensor rows = gradient._indices()[0].contiguous();
  const auto* row = rows.const_data_ptr<std::int64_t>();
  std::int64_t from = 0;
  for (std::int64_t at = 1; at <= rows.numel(); ++at) {
    if (at < rows.numel() && row[at] > row[at - 1]) continue;
    indices.push_back(rows.narrow(0, from, at - from));
    values.push_back(gradient._values().narrow(0, from, at - from));
    from = at;
  }
}

// Multiplies each row by total / the weight of the gradients that have the row.
void divide_by_index(const at::Tensor& sum, const std::vector<SparseRows>& gradients, double total) {
  const at::Tensor rows = sum._indices()[0];
  const at::Tensor weights = at::zeros({rows.numel()}, at::kDouble);
  for (const SparseRows& each : gradients) {
    if (!each.gradient.defined()) continue;
    const at::Tensor its = std::get<0>(at::_unique2(each.gradient._indices()[0]));
    weights.index_add_(0, at::searchsorted(rows, its), at::full({its.numel()}, each.weight, at::kDouble));
  }
  at::Tensor values = sum._values();
  std::vector<std::int64_t> column(static_cast<std::size_t>(values.dim()), 1);
  column[0] = rows.numel();
  values.mul_((total / weights).to(values.scalar_type()).reshape(column));
}

}  // namespace

// Every member gathers the coalesced gradients of all shards, how many rows each has (-1: no gradient), and adds them
// itself, so that all have the same bits.
at::Tensor sum_sparse_over_shards(const std::vector<at::Tensor>& shards, const std::vector<std::int64_t>& shape,
                                  const at::TensorOptions& options, comm::Group& group, const Limits& limits) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> indices, values, lengths;
  std::vector<std::int64_t> row = shape;
  row[0] = 0;
  const at::TensorOptions index_options = options.dtype(at::kLong);
  at::Tensor my_indices = at::empty({0}, index_options), my_values = at::empty(row, options);
  std::vector<std::int64_t> counts;
  for (const at::Tensor& gradient : shards) {
    counts.push_back(gradient.defined() ? 0 : -1);
    if (!gradient.defined()) continue;
    const at::Tensor coalesced = gradient.coalesce();
    counts.back() = coalesced._nnz();
    my_indices = at::cat({my_indices, coalesced.indices()[0]});
    my_values = at::cat({my_values, coalesced.values()});
  }
  const std::vector<at::Tensor> all_counts = group.all_gather(at::tensor(counts, at::kLong), limits);
  const std::vector<at::Tensor> all_indices = group.all_gather(my_indices, limits);
  const std::vector<at::Tensor> all_values = group.all_gather(my_values, limits);
  for (std::size_t member = 0; member < all_counts.size(); ++member) {
    std::int64_t from = 0;
    for (std::int64_t shard = 0; shard < all_counts[member].numel(); ++shard) {
      const std::int64_t count = all_counts[member].data_ptr<std::int64_t>()[shard];
      if (count < 0) continue;
      indices.push_back(all_indices[member].narrow(0, from, count));
      values.push_back(all_values[member].narrow(0, from, count));
      from += count;
    }
  }
  return indices.empty() ? at::Tensor() : add_in_order(indices, values, shape);
}

at::Tensor sum_rows(const std::vector<SparseRows>& gradients, const std::vector<std::int64_t>& shape, SparseMean mean,
                    double total) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> indices, values;
  at::Tensor empty;  // a gradient without rows: the parameter took part, and nothing changes
  for (const SparseRows& each : gradients) {
    if (!each.gradient.defined()) continue;
    if (each.gradient._nnz() == 0) empty = each.gradient;
    append_shards(each.gradient, indices, values);
  }
  if (indices.empty()) return empty.defined() ? empty.clone() : empty;
  const at::Tensor sum = add_in_order(indices, values, shape);
  if (mean == SparseMean::kByIndex) divide_by_index(sum, gradients, total);
  return sum;
}

at::Tensor join_shards(const std::vector<at::Tensor>& shards, const std::vector<std::int64_t>& shape) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> indices, values;
  for (const at::Tensor& shard : shards) {
    if (!shard.defined()) continue;
    const at::Tensor coalesced = shard.coalesce();
    indices.push_back(coalesced.indices());
    values.push_back(coalesced.values());
  }
  if (indices.empty()) return {};
  return at::_sparse_coo_tensor_unsafe(at::cat(indices, 1), at::cat(values), shape);
}

}  // namespace tandem::sync
