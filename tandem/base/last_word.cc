#include "tandem/base/last_word.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "tandem/base/mutex.h"
#include "tandem/base/text.h"

namespace tandem {
namespace {

constexpr char kBegun = 'b', kOver = 'o';

// The pipe of this process, and how many objects promise a word.
struct Promised {
  Mutex mutex;
  int pipe TANDEM_GUARDED_BY(mutex) = -1;
  ino_t inode TANDEM_GUARDED_BY(mutex) = 0;
  int words TANDEM_GUARDED_BY(mutex) = 0;
};
Promised& promised() {
  static auto* const it = new Promised;  // never destroyed: words may end with static objects
  return *it;
}

// The number may belong to another file by now: libraries close descriptors that are not theirs.
bool is_pipe(int descriptor, ino_t inode) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && S_ISFIFO(status.st_mode) && status.st_ino == inode;
}

void say(char word) TANDEM_REQUIRES(promised().mutex) {
  if (!is_pipe(promised().pipe, promised().inode)) return;
  [[maybe_unused]] const ssize_t written = ::write(promised().pipe, &word, 1);
}

}  // namespace

LastWord::LastWord(std::string_view pipe) {
  const std::size_t colon = pipe.find(':');
  if (colon == std::string_view::npos) return;
  const auto descriptor = parse_number<int>(pipe.substr(0, colon));
  const auto inode = parse_number<ino_t>(pipe.substr(colon + 1));
  if (!descriptor || !inode || !is_pipe(*descriptor, *inode)) return;
  ::fcntl(*descriptor, F_SETFD, FD_CLOEXEC);
  const MutexLock lock(promised().mutex);
  promised().pipe = *descriptor;
  promised().inode = *inode;
  if (promised().words++ == 0) say(kBegun);
  promised_ = true;
}

LastWord::~LastWord() {
  if (!promised_) return;
  const MutexLock lock(promised().mutex);
  if (--promised().words == 0) say(kOver);
}

LastWord& LastWord::operator=(LastWord&& other) noexcept {
  std::swap(promised_, other.promised_);
  return *this;
}

std::string last_word_value(int writer) {
  struct stat status {};
  return ::fstat(writer, &status) == 0 ? concat(writer, ":", status.st_ino) : "";
}

bool is_word_missing(int reader) {
  std::array<char, 4096> words;
  char last = kOver;
  for (ssize_t size = 0;;) {
    size = ::read(reader, words.data(), words.size());
    if (size > 0) last = words[static_cast<std::size_t>(size) - 1];
    if (size == 0 || (size < 0 && errno != EINTR)) return last == kBegun;
  }
}

}  // namespace tandem
