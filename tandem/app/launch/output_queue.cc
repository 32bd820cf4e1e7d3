#include "tandem/app/launch/output_queue.h"

#include <unistd.h>

#include <cerrno>
#include <climits>
#include <string_view>

namespace tandem::app {

void OutputQueue::add(const std::string& lines) {
  if (!reader_is_gone_) text_ += lines;
}

void OutputQueue::write_some() {
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

void OutputQueue::clear() {
  text_.clear();
  written_ = 0;
  is_inside_line_ = false;
}

}  // namespace tandem::app
