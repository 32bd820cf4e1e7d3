// base/atomic_file.h: files that are either whole or not there.
//
//   AtomicFile file(path);
//   file.write(bytes);
//   file.commit();
//
// AtomicFile writes to PATH.part. commit() syncs the bytes, renames PATH.part to PATH and syncs the folder. A reader
// that opens PATH finds the old content or the whole new one, also after a crash or a power cut at any instant.
//
// Threads: single-thread; two objects must not write the same path at the same time. Blocks on the disk, with no limit.
// Errors: CheckpointError with the path, the system's reason and what to do. The old file is then still in place.
// There is one exception: when only the sync of the folder failed, the new file is in place, but a power cut may bring
// back the old one.
// Fault points: file.open, file.write, file.sync, file.rename and file.sync_folder come before their system calls,
// file.done after the last one.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tandem/base/descriptor.h"

namespace tandem {

class AtomicFile {
 public:
  /// Creates PATH.part, replacing what a crash may have left there: what that is, also a link, is never written to. The
  /// folder must exist.
  explicit AtomicFile(std::filesystem::path path);
  /// Without commit(), removes PATH.part. Errors are passed over: the file under the name itself was never touched.
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  /// The number of bytes written so far.
  [[nodiscard]] std::uint64_t size() const { return size_; }

  /// Puts the written bytes in the place of PATH. Call it once, after the last write().
  void commit();

 private:
  std::filesystem::path path_, part_;
  Descriptor file_;
  std::uint64_t size_ = 0;
};

/// Replaces the whole content of `path` with `content`, as AtomicFile does.
void write_file(const std::filesystem::path& path, std::string_view content);

/// Returns the whole content of a regular file (base/input_file.h), which may be one of /proc, or one that still grows.
/// Throws CheckpointError, also when it has more than `most` bytes: without a bound, when it has more than the machine
/// has memory.
[[nodiscard]] std::string read_file(const std::filesystem::path& path, std::optional<std::uint64_t> most = {});

/// Makes renames, creations and removals in `folder` survive a power cut.
void sync_folder(const std::filesystem::path& folder);

/// Throws the CheckpointError of a system call that failed on `path` with `error_number`: "cannot write PATH: No space
/// left on device (errno 28); free some space ...". `action` is the verb of that message.
[[noreturn]] void throw_file_error(std::string_view action, const std::filesystem::path& path, int error_number);

}  // namespace tandem
