// model/row_pick.h: one element of each row.
//
// Threads: any.
#pragma once
#include <ATen/core/Tensor.h>

namespace tandem::model {

/// `rows` [..., n] at `index` [..., 1], int64 in 0 .. n-1: [..., 1]. On the CPU by gather(), which throws for an index
/// out of range; on other devices by pick_by_mask().
[[nodiscard]] at::Tensor pick(const at::Tensor& rows, const at::Tensor& index);

/// The same bits, and those of the gradient, by operations of which none adds in an order of its own, waits for the
/// device or copies from the host. The gradient of gather() does one or the other on a CUDA device. An index out of
/// range gives 0.
[[nodiscard]] at::Tensor pick_by_mask(const at::Tensor& rows, const at::Tensor& index);

}  // namespace tandem::model
