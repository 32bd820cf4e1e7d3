#include "tandem/rl/policy/kernels/mlp_kernels.h"

#include "tandem/base/check.h"
#include "tandem/rl/policy/kernels/block_kernels.h"

namespace tandem::rl {
namespace {

// The one place that chooses between instruction sets.
const SetKernels& kernels_of(InstructionSet set) {
  require_instruction_set(set);
  const SetKernels* kernels = set == InstructionSet::kAvx512 ? avx512_kernels()
                              : set == InstructionSet::kAvx2 ? avx2_kernels()
                                                             : portable_kernels();
  TANDEM_CHECK(kernels != nullptr, name_of(set), " was detected and not compiled");
  return *kernels;
}

}  // namespace

PackedLayer::PackedLayer(std::int64_t inputs_, std::int64_t outputs_)
    : inputs(inputs_), outputs(outputs_), weights(padded(outputs_) * inputs_), bias(padded(outputs_)) {}

// Within a panel the weights of kPanel outputs for one input lie side by side, as one or several vectors. The padding
// stays zero, so outputs beyond the last one become zero, too.
void PackedLayer::pack(const float* weight, const float* bias_of) {
  for (std::int64_t o = 0; o < outputs; ++o) {
    float* panel = weights.data() + o / kPanel * inputs * kPanel + o % kPanel;
    for (std::int64_t i = 0; i < inputs; ++i) panel[i * kPanel] = weight[o * inputs + i];
    bias.data()[o] = bias_of[o];
  }
}

const MlpKernels& mlp_kernels(InstructionSet set) { return kernels_of(set).mlp; }

template <>
const BlockKernels<float>& block_kernels(InstructionSet set) {
  return kernels_of(set).block;
}

template <>
const BlockKernels<double>& block_kernels(InstructionSet set) {
  require_instruction_set(set);
  return portable_block_kernels_of_doubles();
}

}  // namespace tandem::rl
