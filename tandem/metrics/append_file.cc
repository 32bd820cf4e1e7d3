#include "tandem/metrics/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "tandem/base/atomic_file.h"
#include "tandem/base/fault_point.h"

namespace tandem {
namespace {

// Returns zero, or the errno with which writing failed. An injected fault comes after half of the piece is written, as
// on a disk that fills up.
int write_all(int descriptor, std::string_view piece) {
  const int injected = fault_errno("metrics.append");
  if (injected != 0) piece = piece.substr(0, piece.size() / 2);
  while (!piece.empty()) {
    const ssize_t written = ::write(descriptor, piece.data(), piece.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    piece.remove_prefix(static_cast<std::size_t>(written));
  }
  return injected;
}

}  // namespace

AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw_file_error("open", path_, errno);
  const off_t end = ::lseek(descriptor_, 0, SEEK_END);
  size_ = end < 0 ? 0 : static_cast<std::uint64_t>(end);
}

AppendFile::~AppendFile() { ::close(descriptor_); }

void AppendFile::append(std::string_view piece) {
  if (const int error_number = write_all(descriptor_, piece); error_number != 0) {
    // If cutting fails as well, the torn piece stays. The readers of these files know how to drop it.
    (void)!::ftruncate(descriptor_, static_cast<off_t>(size_));
    throw_file_error("append to", path_, error_number);
  }
  size_ += piece.size();
}

}  // namespace tandem
