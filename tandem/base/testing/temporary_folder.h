// base/testing/temporary_folder.h: a folder for one test, removed with all that is in it.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "tandem/base/check.h"

namespace tandem {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tandem.XXXXXX").string();
    TANDEM_CHECK(::mkdtemp(name.data()) != nullptr, "cannot create ", name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace tandem
