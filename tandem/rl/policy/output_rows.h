// rl/policy/output_rows.h: rows of a policy's output. Parameters that all rows share (a log_std of [size]) stay as they
// are.
//
// Threads: any. Results are differentiable.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

/// `select` applied to every tensor of `output` that has a row for each of its `rows` rows.
[[nodiscard]] PolicyOutput map_rows(const PolicyOutput& output, std::int64_t rows,
                                    const std::function<at::Tensor(const at::Tensor&)>& select);

/// The rows of outputs of one policy one after the other; `rows` of each.
[[nodiscard]] PolicyOutput cat_rows(const std::vector<PolicyOutput>& outputs, const std::vector<std::int64_t>& rows);

}  // namespace tandem::rl
