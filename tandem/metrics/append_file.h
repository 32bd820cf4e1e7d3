// metrics/append_file.h: a file that grows by whole pieces.
//
// Threads: single-thread; one writer a file. Each piece is handed to the system at once, so that it survives a crash of
// the process (not a power cut). Fault point: metrics.append.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace tandem {

class AppendFile {
 public:
  /// Opens or creates the file, at its end. Throws CheckpointError.
  explicit AppendFile(std::filesystem::path path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// Appends the piece. Throws CheckpointError when it does not fit; what had been written of it is cut off again.
  void append(std::string_view piece);

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace tandem
