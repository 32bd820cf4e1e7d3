// device/cuda_library.h: loads LibTorch's CUDA part when a CUDA device is asked for, and not before.
//
// A program that links that part starts slower and takes three times the memory, so none of Tandem's programs does.
//
// Threads: all. Blocks once, while the libraries are loaded.
#pragma once

namespace tandem::device {

/// Makes CUDA devices usable. Throws ConfigError with the loader's own words when this LibTorch has no CUDA part, when
/// a library that the part needs is missing, or when there is no driver or device.
void require_cuda();

}  // namespace tandem::device
