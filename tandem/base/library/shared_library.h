// base/library/shared_library.h: a shared library that is loaded while the program runs.
//
//   SharedLibrary library("libtandem_cuda.so");
//   void* function = library.find("tandem_record_cuda_graph");
//   if (function == nullptr) throw ConfigError(library.why_not());
//
// A loaded library stays until the process ends, since nobody knows who still holds what it gave out: destroying a
// SharedLibrary unloads nothing.
//
// Threads: one object belongs to one thread; loading blocks on the disk.
#pragma once
#include <dlfcn.h>

#include <string>

#include "tandem/base/rounding.h"

namespace tandem {

class SharedLibrary {
 public:
  /// Whether libraries that are loaded later may use this one's symbols.
  enum class Symbols { kLocal, kGlobal };

  /// Loads `file`, a path, or a name that the system's loader looks for. Whether that failed, why_not() says.
  explicit SharedLibrary(const std::string& file, Symbols symbols = Symbols::kLocal) {
    const KeptRounding kept;
    handle_ = ::dlopen(file.c_str(), RTLD_NOW | (symbols == Symbols::kGlobal ? RTLD_GLOBAL : RTLD_LOCAL));
    if (handle_ == nullptr) note_failure();
  }

  /// The address of `symbol`; null when the library has none, or was not loaded, and why_not() says so.
  [[nodiscard]] void* find(const char* symbol) {
    if (handle_ == nullptr) return nullptr;
    void* address = ::dlsym(handle_, symbol);
    if (address == nullptr) note_failure();
    return address;
  }
  /// The loader's own words about the last failure; empty when there was none.
  [[nodiscard]] const std::string& why_not() const { return why_not_; }

 private:
  void note_failure() {
    const char* reason = ::dlerror();  // NOLINT(concurrency-mt-unsafe): glibc keeps one a thread
    why_not_ = reason == nullptr ? "unknown reason" : reason;
  }

  void* handle_ = nullptr;
  std::string why_not_;
};

}  // namespace tandem
