// base/forked_program.h: what lies between fork() and the start of another program: the child shares the handlers of
// its parent, may make system calls only, and says by a pipe when the program could not be executed.
//
//   const BlockedSignals blocked;
//   if (::fork() == 0) {
//     reset_signals();
//     ...
//     become_program(arguments, environment, failure.writer.get());
//     ::_exit(127);
//   }
//   failure.writer.close();
//   const int error = wait_for_start(failure.reader.get());
//
// Threads: a BlockedSignals belongs to the thread that made it. Errors: none is thrown.
#pragma once
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

namespace tandem {

/// Holds back all signals to the calling thread while it lives, so that no handler of the parent ever runs in a child:
/// it would write into the parent's pipes.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

/// In the child: every signal does what it does by default, also those that the parent ignores, and none is held back.
/// Only a SIGHUP that is ignored stays so: nohup asks for it. It makes system calls only, so it is safe after a fork of
/// a program with threads.
inline void reset_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction before {};
    ::sigaction(number, nullptr, &before);
    if (number != SIGHUP || before.sa_handler != SIG_IGN) ::sigaction(number, &action, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
}

/// Pointers to the words, and a null at the end, as exec wants them. The words must stay where they are.
inline std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// In the child: becomes the program. Returns when that failed: errno has then been written into `failure`, the writing
/// end of a pipe that a successful exec closes, and the child has to end. It makes system calls only.
inline void become_program(const std::vector<char*>& arguments, const std::vector<char*>& environment, int failure) {
  ::execvpe(arguments.front(), arguments.data(), environment.data());
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(failure, &error, sizeof(error));
}

/// In the parent, with the reading end: the errno of a program that could not be executed, or zero once it has started.
/// Blocks until one of both.
inline int wait_for_start(int reader) {
  int failure = 0;
  ssize_t size = 0;
  do {
    size = ::read(reader, &failure, sizeof(failure));
  } while (size < 0 && errno == EINTR);
  return size == sizeof(failure) ? failure : 0;
}

}  // namespace tandem
