#include "tandem/app/run/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

std::string holder(int descriptor) {
  std::array<char, 32> text{};
  const ssize_t size = ::pread(descriptor, text.data(), text.size(), 0);
  return size > 0 ? concat("process ", std::string(text.data(), static_cast<std::size_t>(size))) : "another process";
}

// For the message above only, so nothing depends on whether it can be written.
void write_holder(int descriptor) {
  const std::string text = std::to_string(::getpid());
  if (::ftruncate(descriptor, 0) != 0) return;
  [[maybe_unused]] const ssize_t written = ::pwrite(descriptor, text.data(), text.size(), 0);
}

}  // namespace

RunLock::RunLock(const std::filesystem::path& folder)
    : file_(::open((folder / kFileName).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  const std::filesystem::path file = folder / kFileName;
  if (!file_.is_open()) throw_file_error("write to the run folder: create", file, errno);
  // is_held() takes a shared lock for an instant; one such look must not refuse a run.
  constexpr int kTries = 5;
  int reason = EWOULDBLOCK;
  for (int i = 0; i < kTries && reason == EWOULDBLOCK; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) {
      write_holder(file_.get());
      return;
    }
    reason = errno;
  }
  if (reason != EWOULDBLOCK) throw_file_error("lock", file, reason);
  throw ConfigError(concat("the run folder ", folder.string(), " is in use by ", holder(file_.get()),
                           "; wait for it or end it, or choose another folder with --run-dir"));
}

bool RunLock::is_held(const std::filesystem::path& folder) {
  const Descriptor file(::open((folder / kFileName).c_str(), O_RDONLY | O_CLOEXEC));
  // A shared lock does not disturb other lookers. It ends when the descriptor is closed on return.
  return file.is_open() && ::flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace tandem::app
