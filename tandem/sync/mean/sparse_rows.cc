#include "tandem/sync/mean/sparse_rows.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "tandem/sync/mean/sparse_sum.h"

namespace tandem::sync {
namespace {

// A shard's rows ascend; where they do not, another shard begins. Shards that happen to ascend across their border have
// no row in common, so they may be added as one.
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

// Times total / the weight of the gradients that have the row.
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

at::Tensor sum_rows(const std::vector<SparseRows>& gradients, const std::vector<std::int64_t>& shape, SparseMean mean,
                    double total) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> indices, values;
  at::Tensor empty;  // all rows of no gradient: there is one, and it changes nothing
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
