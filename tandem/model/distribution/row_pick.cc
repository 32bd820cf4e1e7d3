#include "tandem/model/distribution/row_pick.h"

#include <ATen/ATen.h>

namespace tandem::model {

at::Tensor pick(const at::Tensor& rows, const at::Tensor& index) {
  return rows.is_cpu() ? rows.gather(-1, index) : pick_by_mask(rows, index);
}

at::Tensor pick_by_mask(const at::Tensor& rows, const at::Tensor& index) {
  const at::Tensor others = at::arange(rows.size(-1), index.options()) != index;
  return rows.masked_fill(others, 0).sum(-1, /*keepdim=*/true);
}

}  // namespace tandem::model
