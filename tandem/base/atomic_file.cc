#include "tandem/base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/input_file.h"
#include "tandem/base/process.h"

namespace tandem {
namespace {

// Returns what the user can do about an errno, for the end of a message.
std::string_view next_step(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return "free some space there, or choose a run folder on another disk; what was saved before is still whole";
    case EROFS:
      return "the file system is mounted read-only: choose a run folder on another one";
    case EACCES:
    case EPERM:
      return "check the owner and the permissions of the file and its folder, or choose another run folder";
    case ENOENT:
      return "check the path: the file or a folder above it does not exist";
    case ENOTDIR:
    case EISDIR:
      return "check the path: a folder and a file are mixed up in it";
    case EMFILE:
    case ENFILE:
      return "raise the limit on open files (ulimit -n)";
    case EIO:
      return "the disk reports damage: save the run folder elsewhere";
    default:
      return "check the path and the disk";
  }
}

// Makes `system_call` and returns its result. Throws when the call fails, or when a fault is armed at `point`. A call
// that a signal interrupted is made again.
template <typename Call>
auto checked(std::string_view point, std::string_view action, const std::filesystem::path& path, Call system_call) {
  if (const int injected = fault_errno(point); injected != 0) throw_file_error(action, path, injected);
  while (true) {
    const auto result = system_call();
    if (result >= 0) return result;
    if (errno != EINTR) throw_file_error(action, path, errno);
  }
}

}  // namespace

void throw_file_error(std::string_view action, const std::filesystem::path& path, int error_number) {
  throw CheckpointError(concat("cannot ", action, " ", path.string(), ": ",
                               std::generic_category().message(error_number), " (errno ", error_number, "); ",
                               next_step(error_number)));
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)), part_(path_) {
  // The part lies in the folder of the file, since a rename is atomic only within one file system. It is always a new
  // file: in a folder that somebody else made, the name could be a link to any file of the user's, or a pipe.
  part_ += ".part";
  ::unlink(part_.c_str());
  file_ = Descriptor(checked("file.open", "create", part_,
                             [&] { return ::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); }));
}

AtomicFile::~AtomicFile() {
  if (file_.is_open()) ::unlink(part_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  TANDEM_CHECK(file_.is_open(), "write after commit of ", path_.string());
  constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // Linux writes at most 2 GiB a call
  while (!bytes.empty()) {
    const auto written = checked("file.write", "write", part_, [&] {
      return ::write(file_.get(), bytes.data(), std::min(bytes.size(), kMostAtOnce));
    });
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    size_ += static_cast<std::uint64_t>(written);
  }
}

// The order is what makes the file atomic: the bytes are on the disk before the name is, and the name before the caller
// goes on. Without the sync of the folder a power cut could undo the rename.
void AtomicFile::commit() {
  TANDEM_CHECK(file_.is_open(), "second commit of ", path_.string());
  checked("file.sync", "write", part_, [&] { return ::fsync(file_.get()); });
  checked("file.rename", "replace", path_, [&] { return ::rename(part_.c_str(), path_.c_str()); });
  file_.close();
  sync_folder(path_.parent_path());
  fault_point("file.done");
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

// The size that the file claims is refused before there is a buffer for it.
std::string read_file(const std::filesystem::path& path, std::optional<std::uint64_t> most) {
  const std::uint64_t bound = most.value_or(machine_memory());
  const auto require = [&](std::uint64_t size) {
    if (size <= bound) return;
    throw CheckpointError(concat("cannot read ", path.string(), ": it has more than ", bound, " bytes, ",
                                 most ? "the most that a file of this kind may have: it is none, or was damaged"
                                      : "as many as the memory of this machine: use one with more"));
  };
  if (const int injected = fault_errno("file.read"); injected != 0) throw_file_error("open", path, injected);
  const Descriptor file = open_regular("open", path, O_RDONLY);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_file_error("read", path, errno);
  require(static_cast<std::uint64_t>(status.st_size));
  // The buffer has one byte more than the file, so that the read that finds the end needs no larger buffer. The size is
  // only a first guess: a file of /proc reports 0, and another process may still be writing.
  std::string content(static_cast<std::size_t>(std::max<off_t>(status.st_size, 4095)) + 1, '\0');
  std::size_t size = 0;
  while (true) {
    if (size == content.size()) content.resize(2 * size);
    const auto count = checked("file.read", "read", path,
                               [&] { return ::read(file.get(), content.data() + size, content.size() - size); });
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
    require(size);
  }
  content.resize(size);
  return content;
}

void sync_folder(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder.empty() ? std::filesystem::path(".") : folder;
  const Descriptor opened(checked("file.sync_folder", "open", path,
                                  [&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (::fsync(opened.get()) == 0) return;
  // Some network file systems cannot sync a folder and say so. Their renames are on the server already.
  if (errno != EINVAL && errno != ENOTSUP) throw_file_error("sync", path, errno);
}

}  // namespace tandem
