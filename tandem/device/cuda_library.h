// device/cuda_library.h: LibTorch's CUDA part, loaded only when a CUDA device is asked for.
//
// A program that links it starts slower and takes three times the memory, so none of ours does.
// Threads: all. Blocks while the libraries are loaded, once.
#pragma once

namespace tandem::device {

/// Makes CUDA devices usable. Throws ConfigError when this LibTorch has no CUDA part, a library that it needs is
/// missing, or there is no driver or device, with the loader's own words.
void require_cuda();

}  // namespace tandem::device
