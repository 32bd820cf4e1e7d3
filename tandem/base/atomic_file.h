// base/atomic_file.h: files that are either whole or not there.
//
// AtomicFile writes to PATH.part, and commit() makes that the file: sync the bytes, rename, sync the folder. Whoever
// opens PATH, also after a crash or a power cut at any instant, finds the old content or the whole new one.
//
// Threads: single-thread; two at once must not write the same path. Blocks on the disk.
// Errors: CheckpointError with the path, the system's reason and what to do. The old file is then still in place,
// unless only the last step failed, the sync of the folder: then the new file is there, but a power cut may bring back
// the old. Fault points: file.open, file.write, file.sync, file.rename, file.sync_folder (each before its system call),
// and file.done (after the last).
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace tandem {

class AtomicFile {
 public:
  /// Creates PATH.part, replacing what a crash may have left there. The folder must exist.
  explicit AtomicFile(std::filesystem::path path);
  /// Without commit(), removes PATH.part.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  /// Bytes written so far.
  [[nodiscard]] std::uint64_t size() const { return size_; }

  /// Makes it the file. Call it once, last.
  void commit();

 private:
  void discard();

  std::filesystem::path path_, part_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// Replaces the whole content of `path` at once.
void write_file(const std::filesystem::path& path, std::string_view content);

/// The whole content of a file. Throws CheckpointError.
[[nodiscard]] std::string read_file(const std::filesystem::path& path);

/// Makes renames, creations and removals in `folder` survive a power cut.
void sync_folder(const std::filesystem::path& folder);

/// The CheckpointError of a system call that failed on `path` with `error_number`: "cannot write PATH: No space left on
/// device (28); free some space ...".
[[noreturn]] void throw_file_error(std::string_view action, const std::filesystem::path& path, int error_number);

}  // namespace tandem
