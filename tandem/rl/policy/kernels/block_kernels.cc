#include "tandem/rl/policy/kernels/block_kernels.h"

#include "tandem/base/check.h"

namespace tandem::rl {

template <>
const BlockKernels<float>& block_kernels(InstructionSet set) {
  require_instruction_set(set);
  const BlockKernels<float>* kernels = set == InstructionSet::kAvx512 ? avx512_block_kernels()
                                       : set == InstructionSet::kAvx2 ? avx2_block_kernels()
                                                                      : portable_block_kernels();
  TANDEM_CHECK(kernels != nullptr, name_of(set), " was detected and not compiled");
  return *kernels;
}

template <>
const BlockKernels<double>& block_kernels(InstructionSet set) {
  require_instruction_set(set);
  return *portable_block_kernels_of_doubles();
}

}  // namespace tandem::rl
