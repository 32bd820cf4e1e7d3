// app/launch/output_queue.h: text on its way to the launcher's standard output or error, without ever blocking on it.
//
// A reader may be slow (`tandem launch ... | less`). The launcher must see deaths and Ctrl-C all the same, so it waits
// with poll() until the stream takes more, and reads nothing from ranks while the queue is full: they then wait, as
// they would without a launcher.
//
// Standard output and error may be one terminal: a line that was begun goes first, so lines of the two do not mix.
//
// Threads: single-thread.
#pragma once
#include <cstddef>
#include <string>

namespace tandem::app {

class OutputQueue {
 public:
  /// A mark in bytes: add() takes more all the same, as at the end of a rank.
  static constexpr std::size_t kFull = std::size_t{1} << 20;

  /// `descriptor` stays the caller's.
  explicit OutputQueue(int descriptor) : descriptor_(descriptor) {}

  /// `lines`: whole ones.
  void add(const std::string& lines);
  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] bool is_empty() const { return written_ == text_.size(); }
  [[nodiscard]] bool is_full() const { return text_.size() - written_ >= kFull; }
  /// Whether only a part of a line was written; other queues should wait then.
  [[nodiscard]] bool is_inside_line() const { return is_inside_line_; }

  /// Writes some of it; to be called when poll() says that the stream is writable, and does then not block. When the
  /// reader is gone, text is dropped from then on.
  void write_some();
  /// Drops what was not written.
  void clear();

 private:
  const int descriptor_;
  std::string text_;
  std::size_t written_ = 0;
  bool is_inside_line_ = false;
  bool reader_is_gone_ = false;
};

}  // namespace tandem::app
