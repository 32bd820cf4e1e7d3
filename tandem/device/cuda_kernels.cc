#include "tandem/device/cuda_kernels.h"

#include <ATen/Context.h>

#include <cstdlib>

namespace tandem::device {

void choose_cuda_kernels(CudaKernels kernels) {
  const bool fixed = kernels == CudaKernels::kDeterministic;
  constexpr int kKeep = 0;  // setenv() leaves a value alone that a user has set
  // Eight buffers of 4 MiB for each stream, the larger of the two sizes with which cuBLAS promises the same bits.
  if (fixed) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", kKeep);  // NOLINT(concurrency-mt-unsafe): see the header
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(fixed, /*warn_only=*/false);
  context.setDeterministicCuDNN(fixed);
  context.setBenchmarkCuDNN(!fixed);  // it times the kernels and takes the fastest, which differs from run to run
  // Otherwise LibTorch would also fill all new memory with NaN, for code that reads memory before writing to it.
  context.setDeterministicFillUninitializedMemory(false);
}

}  // namespace tandem::device
