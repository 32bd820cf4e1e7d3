// app/commands/scratch_folder.h: a temporary folder, under TMPDIR or /tmp, which is gone when its owner is.
//
// Threads: single-thread, but for remove(), which a signal that ends the process at once calls from another thread.
#pragma once
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {

class ScratchFolder {
 public:
  /// The folder is called tandem-PURPOSE-XXXXXX. Throws RunError when the system has none.
  explicit ScratchFolder(const std::string& purpose) {
    std::string name = (std::filesystem::temp_directory_path() / concat("tandem-", purpose, "-XXXXXX")).string();
    if (::mkdtemp(name.data()) == nullptr)
      throw RunError(concat("no temporary folder can be made at ", name, "; TMPDIR says where another may be"));
    path_ = name;
  }
  ~ScratchFolder() { remove(); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Also while another thread writes there, whose files then find no place. Throws nothing.
  void remove() const {
    // A file that comes while the folder is emptied keeps it from being removed, and a writer that makes its folders
    // may make it anew just after.
    constexpr int kTries = 100;
    std::error_code error;
    for (int i = 0; i < kTries; ++i) {
      std::filesystem::remove_all(path_, error);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (!std::filesystem::exists(path_, error)) return;
    }
  }

 private:
  std::filesystem::path path_;
};

}  // namespace tandem::app
