#include "tandem/device/cuda_library.h"

#include <ATen/Context.h>

#include <string>

#include "tandem/base/error.h"
#include "tandem/base/shared_library.h"
#include "tandem/base/text.h"

namespace tandem::device {

// LibTorch's library is loaded once; a failure is kept and thrown at each call.
void require_cuda() {
  // The library registers its devices with ATen while it is loaded.
  static const std::string failure = SharedLibrary("libtorch_cuda.so", SharedLibrary::Symbols::kGlobal).why_not();
  if (!failure.empty()) {
    throw ConfigError(concat("devices: CUDA was asked for, but LibTorch's CUDA library cannot be loaded: ", failure,
                             "; use a CUDA build of LibTorch with its CUDA libraries, or --devices cpu:N"));
  }
  if (!at::hasCUDA()) {
    throw ConfigError(
        "devices: CUDA was asked for, but no CUDA device or driver was found; look at nvidia-smi, or use --devices "
        "cpu:N");
  }
}

}  // namespace tandem::device
