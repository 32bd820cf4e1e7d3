// base/last_word.h: how a process tells its launcher that its work is over, so that exit code 0 alone is no success: a
// library that calls exit(0) or _exit(0) ends a process in the middle of its work, with that code.
//
//   LastWord word(std::getenv(kLastWordVariable));  // "the work has begun"
//   ... the work ...
//                                                   // its end, by return or by an exception: "the work is over"
//
// The launcher gives each process the writing end of a pipe of its own, and names it in a variable: "7:81523", the
// descriptor and the pipe's inode. The process writes a byte when the first LastWord is made, and another one when the
// last one is destroyed. A process that never makes one has promised nothing.
//
// Threads: all. Blocking: nothing; a pipe that is full, closed or another file by now takes no word. Errors: none.
#pragma once
#include <string>
#include <string_view>
#include <utility>

namespace tandem {

inline constexpr const char* kLastWordVariable = "TANDEM_LAST_WORD";

class LastWord {
 public:
  /// Promises nothing.
  LastWord() = default;
  /// `pipe`: the variable's value; one that names no pipe promises nothing. The programs that this process starts from
  /// now on do not get the pipe.
  explicit LastWord(std::string_view pipe);
  ~LastWord();
  LastWord(LastWord&& other) noexcept : promised_(std::exchange(other.promised_, false)) {}
  LastWord& operator=(LastWord&& other) noexcept;

 private:
  bool promised_ = false;
};

/// The launcher's side: the variable's value for the pipe with this writing end.
[[nodiscard]] std::string last_word_value(int writer);
/// The launcher's side, when the process has ended: whether its work had begun and was not over. Reads all that is in
/// the pipe, whose reading end must not block.
[[nodiscard]] bool is_word_missing(int reader);

}  // namespace tandem
