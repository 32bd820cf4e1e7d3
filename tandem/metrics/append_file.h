// metrics/append_file.h: a file that grows by whole pieces.
//
// Each piece is handed to the system at once, so that it survives a crash of the process, but not a power cut.
//
// Threads: single-thread; a file has one writer. Blocks on the disk. Fault point: metrics.append.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace tandem {

class AppendFile {
 public:
  /// Opens or creates the file, at its end. Throws CheckpointError. The folder must exist.
  explicit AppendFile(std::filesystem::path path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// Appends the piece. Throws CheckpointError when the piece cannot be written; the written part of it is cut off
  /// again. A reader never sees the next piece before this one.
  void append(std::string_view piece);

  /// Bytes of the file, those that were there before included.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// The path as the constructor was given it.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  // The file is opened for appending, so every write goes to its end.
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace tandem
