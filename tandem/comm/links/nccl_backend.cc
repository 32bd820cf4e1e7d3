#include "tandem/base/error.h"
#include "tandem/base/shared_library.h"
#include "tandem/base/text.h"
#include "tandem/comm/links/c10d_backends.h"
#include "tandem/comm/links/c10d_group.h"
#include "tandem/device/cuda_library.h"

namespace tandem::comm {

#ifdef TANDEM_NCCL

bool has_nccl() { return true; }

namespace {

MakeNccl* load_nccl() {
  device::require_cuda();
  SharedLibrary library(kNcclLibrary);
  if (void* symbol = library.find(kNcclSymbol); symbol != nullptr) return reinterpret_cast<MakeNccl*>(symbol);
  throw ConfigError(concat("NCCL was asked for, but ", kNcclLibrary, " cannot be loaded: ", library.why_not(),
                           "; it lies where tandem's libraries were built or installed: add that folder to "
                           "LD_LIBRARY_PATH"));
}

// Loads the library once in a process; a failure is thrown and tried again by the next call.
MakeNccl* nccl() {
  static MakeNccl* const make = load_nccl();
  return make;
}

}  // namespace

void require_nccl() { (void)nccl(); }

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const NcclOptions& options) {
  return c10::intrusive_ptr<c10d::Backend>::reclaim(nccl()(options));
}

#else

bool has_nccl() { return false; }

void require_nccl() {
  throw ConfigError(
      "this build has no NCCL: when it was configured, CUDA's headers or nccl.h were not found, or LibTorch was one "
      "without CUDA; name their folder with -DTANDEM_CUDA_INCLUDE=DIR and -DTANDEM_NCCL_INCLUDE=DIR, configure again "
      "and build");
}

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const NcclOptions&) {
  require_nccl();
  return {};
}

#endif

}  // namespace tandem::comm
