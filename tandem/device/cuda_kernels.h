// device/cuda_kernels.h: chooses whether sums on a CUDA device have a fixed order.
//
// Several of LibTorch's CUDA operations (the gradient of an embedding or of index_select, scatter_add, some
// convolutions) add with atomic instructions, in the order in which the device's threads arrive. So two runs differ in
// the last bits. LibTorch has deterministic kernels for most of these operations. The choice holds for the whole
// process.
#pragma once

namespace tandem::device {

enum class CudaKernels {
  kDeterministic,  // the same bits in each run; an operation that has no such kernel throws, and names itself
  kFastest,        // LibTorch's usual kernels; runs differ in the last bits
};

/// Sets the choice for all threads of the process, from the next operation on. Call it before the first operation on a
/// CUDA device: the matrix library then reads the environment variable CUBLAS_WORKSPACE_CONFIG, which kDeterministic
/// sets where the user has not. Never blocks. Threads: one, while no other thread reads or sets environment variables.
/// Source: LibTorch, "Reproducibility"; cuBLAS, "Results reproducibility".
void choose_cuda_kernels(CudaKernels kernels);

}  // namespace tandem::device
