#include "tandem/base/shared_library.h"

#include <dlfcn.h>

namespace tandem {
namespace {

std::string loader_error() {
  const char* reason = ::dlerror();  // NOLINT(concurrency-mt-unsafe): glibc keeps one a thread
  return reason == nullptr ? "unknown reason" : reason;
}

}  // namespace

SharedLibrary::SharedLibrary(const std::string& file, Symbols symbols)
    : handle_(::dlopen(file.c_str(), RTLD_NOW | (symbols == Symbols::kGlobal ? RTLD_GLOBAL : RTLD_LOCAL))) {
  if (handle_ == nullptr) why_not_ = loader_error();
}

void* SharedLibrary::find(const char* symbol) {
  if (handle_ == nullptr) return nullptr;
  void* address = ::dlsym(handle_, symbol);
  if (address == nullptr) why_not_ = loader_error();
  return address;
}

}  // namespace tandem
