#include "tandem/base/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem {
namespace {

// Nothing for a regular file and for one that is not there.
const char* other_kind(mode_t mode) {
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return nullptr;
}

void refuse_other_kinds(std::string_view action, const std::filesystem::path& path, const struct stat& status) {
  if (S_ISDIR(status.st_mode)) throw_file_error(action, path, EISDIR);
  if (const char* kind = other_kind(status.st_mode)) {
    throw CheckpointError(concat("cannot ", action, " ", path.string(), ": it is ", kind,
                                 ", and only regular files are used: save what it gives in a file, and name that"));
  }
}

// Reads up to `size` bytes at `offset`.
std::size_t read_at(const Descriptor& file, const std::filesystem::path& path, char* to, std::size_t size,
                    std::uint64_t offset) {
  while (true) {
    const ssize_t count = ::pread(file.get(), to, size, static_cast<off_t>(offset));
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR) throw_file_error("read", path, errno);
  }
}

[[noreturn]] void refuse_line(const std::filesystem::path& path, const std::string& place, std::size_t longest) {
  throw DataError(concat(path.string(), place, ": longer than ", longest, " bytes, which no line of tandem is"));
}

std::uint64_t size_of(const Descriptor& file, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_file_error("read", path, errno);
  return static_cast<std::uint64_t>(status.st_size);
}

constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

// The place of the last line feed before the byte `end`, looked for from there to the front.
std::optional<std::uint64_t> feed_before(const Descriptor& file, const std::filesystem::path& path, std::uint64_t end) {
  std::string piece;
  while (end > 0) {
    const std::uint64_t begin = end - std::min<std::uint64_t>(end, 1 << 16);
    piece.resize(end - begin);
    piece.resize(read_at(file, path, piece.data(), piece.size(), begin));
    const std::size_t feed = piece.rfind('\n');
    if (feed != std::string::npos) return begin + feed;
    end = begin;
  }
  return std::nullopt;
}

}  // namespace

// O_NONBLOCK lets the open() of a pipe return at once, and does nothing to a regular file. A pipe that nobody reads
// cannot be opened for writing so, hence the second look at the path.
Descriptor open_regular(std::string_view action, const std::filesystem::path& path, int flags) {
  int opened = -1;
  do {
    opened = ::open(path.c_str(), flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
  } while (opened < 0 && errno == EINTR);
  Descriptor file(opened);
  const int cause = errno;
  struct stat status {};
  if (file.is_open() ? ::fstat(file.get(), &status) == 0 : cause == ENXIO && ::stat(path.c_str(), &status) == 0)
    refuse_other_kinds(action, path, status);
  if (!file.is_open()) throw_file_error(action, path, cause);
  return file;
}

LineReader::LineReader(std::filesystem::path path, std::size_t longest)
    : path_(std::move(path)), longest_(longest), file_(open_regular("read", path_, O_RDONLY)) {}

bool LineReader::read_more() {
  constexpr std::size_t kPiece = std::size_t{1} << 16;
  if (begin_ > 0) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  const std::size_t held = buffer_.size();
  buffer_.resize(held + kPiece);
  const std::size_t count = read_at(file_, path_, buffer_.data() + held, kPiece, bytes_);
  buffer_.resize(held + count);
  bytes_ += count;
  return count > 0;
}

// Too long a line is passed over in pieces, so that the line behind it can still be read.
std::optional<std::string_view> LineReader::next() {
  std::uint64_t passed = 0;  // bytes of the line that are no longer held
  std::size_t looked = begin_;
  while (true) {
    const std::size_t feed = buffer_.find('\n', looked);
    if (feed != std::string::npos) {
      const std::string_view line = std::string_view(buffer_).substr(begin_, feed - begin_);
      end_ += passed + line.size() + 1;
      begin_ = feed + 1;
      ++number_;
      if (passed + line.size() > longest_) refuse_line(path_, concat(":", number_), longest_);
      return line;
    }
    if (buffer_.size() - begin_ > longest_) {
      passed += buffer_.size() - begin_;
      begin_ = buffer_.size();
    }
    looked = buffer_.size() - begin_;  // read_more() moves what is left to the front
    if (!read_more()) return std::nullopt;
  }
}

std::uint64_t bytes_of_lines(const std::filesystem::path& path) {
  const Descriptor file = open_regular("read", path, O_RDONLY);
  return feed_before(file, path, size_of(file, path)).value_or(kNowhere) + 1;  // kNowhere + 1 is 0
}

std::optional<std::string> last_line(const std::filesystem::path& path, std::size_t longest) {
  const Descriptor file = open_regular("read", path, O_RDONLY);
  const std::optional<std::uint64_t> end = feed_before(file, path, size_of(file, path));
  if (!end) return std::nullopt;
  const std::uint64_t begin = feed_before(file, path, *end).value_or(kNowhere) + 1;
  if (*end - begin > longest) refuse_line(path, ", its last line", longest);
  std::string line(*end - begin, '\0');
  line.resize(read_at(file, path, line.data(), line.size(), begin));
  return line;
}

}  // namespace tandem
