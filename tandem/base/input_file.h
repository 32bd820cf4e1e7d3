// base/input_file.h: files that others name or leave, opened so that nothing about them can hold the program up.
//
// A path may lead to a pipe, whose open() waits for the other side, to a device, which may have no end, or to a folder.
// So whatever the program reads or appends to is opened here: only regular files are, and each other kind is an error
// that names it. Files of /proc are regular.
//
// Threads: all; a LineReader belongs to one thread. Blocks on the disk. Errors: CheckpointError with the path, the
// cause and what to do; DataError for a line that is too long.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "tandem/base/descriptor.h"

namespace tandem {

/// Opens a regular file with the flags of open(2), such as O_RDONLY or O_WRONLY | O_CREAT | O_APPEND; a new file may be
/// read and written by all whom the umask lets. `action` is the verb of the error: "cannot read PATH: ...".
[[nodiscard]] Descriptor open_regular(std::string_view action, const std::filesystem::path& path, int flags);

/// The longest line of a run's own files that is read, in bytes.
inline constexpr std::size_t kLongestLine = std::size_t{4} << 20;

/// The lines of a file, one after the other, of which one at a time is in memory: files of a run may be larger than it.
class LineReader {
 public:
  explicit LineReader(std::filesystem::path path, std::size_t longest = kLongestLine);

  /// The next line without its line feed; nothing at the end. What stands behind the last line feed is no line: a
  /// process that is killed leaves half of one. The view is valid until the next call. Throws DataError naming the line
  /// when it is longer than the bound; the next call goes on behind it.
  [[nodiscard]] std::optional<std::string_view> next();

  /// The number of the line that next() returned, from 1, and the byte of the file behind its line feed.
  [[nodiscard]] std::int64_t number() const { return number_; }
  [[nodiscard]] std::uint64_t end() const { return end_; }
  /// Bytes of the file that were read so far; behind the last line, those of the half line too.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  bool read_more();

  const std::filesystem::path path_;
  const std::size_t longest_;
  const Descriptor file_;
  std::string buffer_;
  std::size_t begin_ = 0;  // of what is not returned yet
  std::int64_t number_ = 0;
  std::uint64_t end_ = 0, bytes_ = 0;
};

/// The bytes up to the last line feed, and with it: all but half a line at the end. Reads the end of the file only.
[[nodiscard]] std::uint64_t bytes_of_lines(const std::filesystem::path& path);

/// The last whole line of a file, without its line feed; nothing where there is none. Reads the end of the file only.
/// Throws DataError when the line is longer than `longest`.
[[nodiscard]] std::optional<std::string> last_line(const std::filesystem::path& path,
                                                   std::size_t longest = kLongestLine);

}  // namespace tandem
