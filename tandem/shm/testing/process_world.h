// shm/testing/process_world.h: the ranks of a host group as forked processes, which a test may stop and kill.
//
// Threads: single-thread; nothing else may run in this process at the fork.
#pragma once
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/base/descriptor.h"
#include "tandem/base/text.h"

namespace tandem::shm {

/// What a rank says to the test.
class Voice {
 public:
  explicit Voice(int descriptor) : descriptor_(descriptor) {}
  void say(std::string_view text) const { (void)!::write(descriptor_, text.data(), text.size()); }

 private:
  int descriptor_;
};

class ProcessWorld {
 public:
  using Work = std::function<void(int rank, const Voice& voice)>;

  ProcessWorld(int size, const Work& work) : ranks_(static_cast<std::size_t>(size)) {
    for (int rank = 0; rank < size; ++rank) start(rank, work);
  }
  ~ProcessWorld() {
    for (Rank& rank : ranks_) {
      if (rank.process < 0) continue;
      ::kill(rank.process, SIGKILL);
      ::waitpid(rank.process, nullptr, 0);
    }
  }
  ProcessWorld(const ProcessWorld&) = delete;
  ProcessWorld& operator=(const ProcessWorld&) = delete;

  void signal(int rank, int number) { ::kill(of(rank).process, number); }

  /// Waits until the rank has said `text`. False when it ended without.
  bool hears(int rank, std::string_view text) {
    while (of(rank).said.find(text) == std::string::npos) {
      if (!listen(rank)) return false;
    }
    return true;
  }

  /// What it has said so far.
  [[nodiscard]] const std::string& said(int rank) { return of(rank).said; }

  /// Waits until the rank ends. What it said, and behind that the what() of an exception, or "signal N".
  std::string outcome(int rank) {
    while (listen(rank)) continue;
    int status = 0;
    ::waitpid(of(rank).process, &status, 0);
    of(rank).process = -1;
    if (WIFSIGNALED(status))
      of(rank).said += concat("signal ", WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
      of(rank).said += concat("exit ", WEXITSTATUS(status));
    return of(rank).said;
  }

  std::vector<std::string> outcomes() {
    std::vector<std::string> all;
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) all.push_back(outcome(rank));
    return all;
  }

 private:
  struct Rank {
    pid_t process = -1;
    Descriptor voice;
    std::string said;
  };

  Rank& of(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  void start(int rank, const Work& work) {
    std::array<int, 2> ends{};
    TANDEM_CHECK(::pipe(ends.data()) == 0);
    of(rank).voice = Descriptor(ends[0]);
    const Descriptor writing(ends[1]);
    of(rank).process = ::fork();
    TANDEM_CHECK(of(rank).process >= 0);
    if (of(rank).process > 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing of a test that was ended stays behind
    const Voice voice(ends[1]);
    try {
      work(rank, voice);
    } catch (const std::exception& error) {
      voice.say(error.what());
    }
    ::_exit(0);
  }

  bool listen(int rank) {
    std::array<char, 4096> buffer{};
    const ssize_t got = ::read(of(rank).voice.get(), buffer.data(), buffer.size());
    if (got > 0) of(rank).said.append(buffer.data(), static_cast<std::size_t>(got));
    return got > 0;
  }

  std::vector<Rank> ranks_;
};

/// A key that no other test uses.
inline std::string unique_key(std::string_view name) {
  static int count = 0;
  return concat("test/", name, "/", ::getpid(), "/", ++count);
}

}  // namespace tandem::shm
