// model/flat_layout.h: decides where each parameter of a module goes, before anything is moved.
//
// Internal to FlatParameters. Reads the module only.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "tandem/model/flat_parameters.h"

namespace tandem::model {

struct LayoutParameter {
  at::Tensor tensor;
  std::vector<std::string> names;  // the first as named_parameters() gives it; then those it is tied under
  int group = 0;
  bool sparse = false;
};

/// One flat buffer, of zeros. `members[i]` is the index in FlatLayout::trainable of slot i.
struct LayoutBuffer {
  FlatBuffer flat;
  std::vector<std::size_t> members;
};

struct FlatLayout {
  std::vector<LayoutParameter> trainable;  // in the module's order, tied ones once
  std::vector<LayoutParameter> frozen;
  std::vector<LayoutBuffer> buffers;  // dense ones first
  int groups = 1;
};

/// Throws ConfigError with every fault found: names that match nothing, several devices, kinds of tensors that cannot
/// be flat, overlapping memory, nothing to train.
[[nodiscard]] FlatLayout plan_flat_layout(const torch::nn::Module& module, const FlatParameters::Options& options);

}  // namespace tandem::model
