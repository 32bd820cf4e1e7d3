#include "tandem/device/cuda_library.h"

#include <ATen/Context.h>
#include <dlfcn.h>

#include <string>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::device {
namespace {

// Empty once loaded, else what went wrong. The library registers its devices with ATen while it is loaded and stays.
std::string load() {
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) != nullptr) return "";
  const char* reason = dlerror();  // NOLINT(concurrency-mt-unsafe): glibc keeps one a thread
  return reason == nullptr ? "unknown reason" : reason;
}

}  // namespace

void require_cuda() {
  static const std::string failure = load();
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
