// app/launch/rank_output.h: what ranks print, from their pipes to the launcher's standard output and error.
//
// Threads: single-thread.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include "tandem/base/text.h"

namespace tandem::app {

enum class Stream { kOut, kErr };

/// The output of a rank, cut into whole lines that say whose they are. Both streams of the rank go through one object,
/// each with its own unfinished line, so that lines of several ranks never mix. The last lines are kept, for the report
/// of a failure, without those of LibTorch's call stacks ("frame #5: ..."), which would push out the error above them.
class RankLines {
 public:
  /// Longer lines are cut. The limit is in bytes, without the prefix; the rest of a longer line begins a new one.
  static constexpr std::size_t kLongestLine = std::size_t{1} << 20;
  static constexpr std::size_t kLinesKept = 10;

  explicit RankLines(int rank) : prefix_(concat("[", rank, "] ")) {}

  /// Takes what was read and returns the lines that it completes, each as "[rank] line\n".
  [[nodiscard]] std::string add(Stream stream, std::string_view bytes) {
    std::string& line = unfinished_[static_cast<std::size_t>(stream)];
    std::string lines;
    while (!bytes.empty()) {
      // Searches no further than the line may grow, so a rank that never ends a line cannot fill the memory.
      const std::size_t room = kLongestLine - line.size();
      const std::size_t end = bytes.substr(0, room).find('\n');
      const std::size_t size = std::min(end, std::min(room, bytes.size()));
      line.append(bytes.substr(0, size));
      bytes.remove_prefix(end == std::string_view::npos ? size : size + 1);
      if (end != std::string_view::npos || line.size() == kLongestLine) complete(line, lines);
    }
    return lines;
  }
  /// The unfinished last line of the stream, if there is one, as a line.
  /// A process that ends without a line feed gets one, so that the next line of another rank begins a line.
  [[nodiscard]] std::string finish(Stream stream) {
    std::string& line = unfinished_[static_cast<std::size_t>(stream)];
    std::string lines;
    if (!line.empty()) complete(line, lines);
    return lines;
  }

  /// The last lines of both streams, in the order in which they were completed, without prefix.
  [[nodiscard]] const std::deque<std::string>& last() const { return last_; }

 private:
  void complete(std::string& line, std::string& lines) {
    lines += prefix_;
    lines += line;
    lines += '\n';
    if (line.starts_with("frame #")) return line.clear();
    last_.push_back(std::exchange(line, {}));
    if (last_.size() > kLinesKept) last_.pop_front();
  }

  std::string prefix_;
  std::array<std::string, 2> unfinished_;
  std::deque<std::string> last_;
};

/// Text on its way to the launcher's standard output or error, without ever blocking on it. A reader may be slow
/// (`tandem launch ... | less`). The launcher must see deaths and Ctrl-C all the same, so it waits with poll() until
/// the stream takes more, and reads nothing from ranks while the queue is full: they then wait, as they would without a
/// launcher.
/// Standard output and error may be one terminal: a line that was begun goes first, so lines of the two do not mix.
class OutputQueue {
 public:
  /// A mark in bytes: add() takes more all the same, as at the end of a rank.
  static constexpr std::size_t kFull = std::size_t{1} << 20;

  /// `descriptor` stays the caller's.
  explicit OutputQueue(int descriptor) : descriptor_(descriptor) {}

  /// `lines`: whole ones.
  void add(const std::string& lines) {
    if (!reader_is_gone_) text_ += lines;
  }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] bool is_empty() const { return written_ == text_.size(); }
  [[nodiscard]] bool is_full() const { return text_.size() - written_ >= kFull; }
  /// Whether only a part of a line was written; other queues should wait then.
  [[nodiscard]] bool is_inside_line() const { return is_inside_line_; }

  /// Writes some of it; to be called when poll() says that the stream is writable, and does then not block. When the
  /// reader is gone, text is dropped from then on.
  void write_some() {
    // A pipe that is writable has room for PIPE_BUF bytes; a longer write could block.
    std::string_view part = std::string_view(text_).substr(written_, PIPE_BUF);
    // Whole lines go first, so that another queue may write to the same terminal in between.
    if (const std::size_t end = part.rfind('\n'); end != std::string_view::npos) part = part.substr(0, end + 1);
    const ssize_t done = ::write(descriptor_, part.data(), part.size());
    // Any other error means that nobody reads the stream any more; the ranks go on without it.
    if (done < 0 && errno != EINTR && errno != EAGAIN) {
      reader_is_gone_ = true;
      clear();
    }
    if (done > 0) {
      written_ += static_cast<std::size_t>(done);
      is_inside_line_ = text_[written_ - 1] != '\n';
    }
    if (is_empty()) clear();
    // Erasing moves the rest, so it is done once a MiB and not after each write.
    if (written_ >= kFull) {
      text_.erase(0, written_);
      written_ = 0;
    }
  }
  /// Drops what was not written.
  void clear() {
    text_.clear();
    written_ = 0;
    is_inside_line_ = false;
  }

 private:
  const int descriptor_;
  std::string text_;
  std::size_t written_ = 0;
  bool is_inside_line_ = false;
  bool reader_is_gone_ = false;
};

}  // namespace tandem::app
