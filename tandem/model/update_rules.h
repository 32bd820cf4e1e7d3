// model/update_rules.h: the arithmetic of each optimizer on one contiguous stretch, and on the rows of a sparse
// gradient.
//
// Internal to Optimizer. A stretch begins and ends at a multiple of 64 bytes, so the kernels' vector loops cover it
// without a scalar remainder, whose last bits differ: how parameters are cut into stretches does not change the
// numbers.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tandem/model/optimizer.h"

namespace tandem::model {

/// Lists of one tensor each, as torch's fused kernels take them; `moments` as moment_names() orders them.
struct Stretch {
  std::vector<at::Tensor> values;
  std::vector<at::Tensor> gradients;  // scaled; written to where writes_gradients() says so
  std::array<std::vector<at::Tensor>, 2> moments;
};

/// Memory that the rules work in, made once for each flat buffer.
struct RuleMemory {
  std::vector<at::Tensor> step;  // one float32 scalar where values are updated: the step that update() is told
  at::Tensor scratch;            // RMSprop's denominator, as long as the longest stretch; undefined for the others
};

/// Adds a fault for each number out of range. `where`: "group actor", say.
void check_rule(const OptimizerOptions& options, const std::string& where, std::vector<std::string>& faults);
/// Adds a fault when this rule cannot take sparse gradients.
void check_sparse_rule(const OptimizerOptions& options, const std::string& parameter, std::vector<std::string>& faults);

[[nodiscard]] double lr_of(const OptimizerOptions& options);
/// State besides the step counts, each as large as the values: at most two.
[[nodiscard]] std::vector<std::string> moment_names(const OptimizerOptions& options);
/// Whether neighbours that were updated `a` and `b` times before can go through one call.
[[nodiscard]] bool same_update(const OptimizerOptions& options, std::int64_t a, std::int64_t b);
[[nodiscard]] bool needs_scratch(const OptimizerOptions& options);
[[nodiscard]] bool writes_gradients(const OptimizerOptions& options);

/// The `step`-th update (from 1) of a stretch.
void update(const OptimizerOptions& options, double lr, std::int64_t step, RuleMemory& memory, Stretch& stretch);

/// The `step`-th update of the rows that `gradient` (coalesced, one sparse dimension, scaled) names; all others stay.
/// Adam follows torch.optim.SparseAdam: moments of absent rows do not decay.
void update_rows(const OptimizerOptions& options, double lr, std::int64_t step, const at::Tensor& gradient,
                 at::Tensor& values, std::array<at::Tensor, 2>& moments);

}  // namespace tandem::model
