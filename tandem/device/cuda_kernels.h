// device/cuda_kernels.h: whether sums on a CUDA device have a fixed order.
//
// Several of LibTorch's CUDA operations (the gradient of an embedding or of index_select, scatter_add, some
// convolutions) add up by atomic instructions, in the order in which threads come, so that two runs differ in the last
// bits. LibTorch has other kernels for most of them; this chooses between the two, for the whole process.
#pragma once

namespace tandem::device {

enum class CudaKernels {
  kDeterministic,  // the same bits in each run; an operation that has no such kernel throws, and names itself
  kFastest,        // whatever LibTorch takes; runs differ in the last bits
};

/// For all threads of the process, from the next operation on. Call it before the first operation on a CUDA device:
/// the matrix library reads CUBLAS_WORKSPACE_CONFIG then, which kDeterministic sets where nobody has. Never blocks.
/// Threads: one, while no other reads or sets variables of the environment.
/// Source: LibTorch, "Reproducibility"; cuBLAS, "Results reproducibility".
void choose_cuda_kernels(CudaKernels kernels);

}  // namespace tandem::device
