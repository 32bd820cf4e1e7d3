#include "tandem/rl/replay/replay_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>

#include "tandem/base/atomic_file.h"
#include "tandem/base/descriptor.h"
#include "tandem/base/error.h"
#include "tandem/base/huge_pages.h"
#include "tandem/base/input_file.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

namespace fs = std::filesystem;

// A named file begins with a page that says what it is, so that no file of the user's is taken for one of ours.
constexpr std::string_view kReplayMark = "tandem replay memory\n";
constexpr std::size_t kReplayPage = 4096;

std::shared_ptr<std::byte> mapped(std::size_t bytes, int flags, int file, std::size_t offset) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, static_cast<off_t>(offset));
  if (memory == MAP_FAILED) {
    throw RunError(concat("a replay of ", bytes, " bytes: mmap: ", std::system_category().message(errno),
                          "; hold fewer rows, or put the replay into a file"));
  }
  if (file < 0) prefer_huge_pages(memory, bytes);  // draws go all over the memory
  return {static_cast<std::byte*>(memory), [bytes](std::byte* address) { ::munmap(address, bytes); }};
}

[[noreturn]] void refuse_file(const fs::path& path, std::size_t bytes, int error_number) {
  throw CheckpointError(concat("a replay's ", bytes, " bytes cannot be had in ", path.string(), ": ",
                               std::generic_category().message(error_number), " (errno ", error_number,
                               "); free some space there, hold fewer rows, or name a folder on another disk"));
}

// Without its space on the disk, a write to the mapping could end the process by a signal.
void take_space(const Descriptor& file, const fs::path& path, std::size_t bytes) {
  if (::ftruncate(file.get(), 0) != 0) refuse_file(path, bytes, errno);
  int refusal = 0;
  do {
    refusal = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  } while (refusal == EINTR);
  if (refusal != 0) refuse_file(path, bytes, refusal);
}

Descriptor nameless_file(const fs::path& folder, std::size_t bytes) {
  Descriptor file(::open(folder.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (file.is_open()) return file;
  if (errno != EOPNOTSUPP && errno != EISDIR) refuse_file(folder, bytes, errno);
  // File systems without nameless files: the name goes at once.
  std::string name = (folder / "tandem-replay-XXXXXX").string();
  file = Descriptor(::mkostemp(name.data(), O_CLOEXEC));
  if (!file.is_open()) refuse_file(folder, bytes, errno);
  if (::unlink(name.c_str()) != 0) throw_file_error("remove", name, errno);
  return file;
}

void refuse_others(const Descriptor& file, const fs::path& path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_file_error("read", path, errno);
  if (status.st_size == 0) return;
  std::array<char, kReplayMark.size()> found{};
  const ssize_t read = ::pread(file.get(), found.data(), found.size(), 0);
  if (read == static_cast<ssize_t>(found.size()) && std::string_view(found.data(), found.size()) == kReplayMark) return;
  throw CheckpointError(concat(path.string(),
                               " is there and is no replay's memory; it is left alone. Remove it, or "
                               "name another file"));
}

}  // namespace

std::shared_ptr<std::byte> map_replay(const ReplayMemory& where, std::size_t bytes) {
  switch (where.place) {
    case ReplayMemory::Place::kAnonymous:
      return mapped(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    case ReplayMemory::Place::kNamelessFile: {
      const Descriptor file = nameless_file(where.path, bytes);
      take_space(file, where.path, bytes);
      return mapped(bytes, MAP_SHARED, file.get(), 0);
    }
    case ReplayMemory::Place::kNamedFile:
      break;
  }
  const Descriptor file = open_regular("write", where.path, O_RDWR | O_CREAT);
  refuse_others(file, where.path);
  take_space(file, where.path, kReplayPage + bytes);
  if (::pwrite(file.get(), kReplayMark.data(), kReplayMark.size(), 0) != static_cast<ssize_t>(kReplayMark.size()))
    throw_file_error("write", where.path, errno);
  return mapped(bytes, MAP_SHARED, file.get(), kReplayPage);
}

}  // namespace tandem::rl
