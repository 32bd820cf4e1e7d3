#include "bench/forked_ranks.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <string>
#include <system_error>
#include <utility>

#include "tandem/base/descriptor.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::bench {
namespace {

using Work = std::function<std::vector<double>(int rank)>;

[[noreturn]] void fail(const std::string& what) {
  throw RunError(concat(what, ": ", std::generic_category().message(errno)));
}

// A process, which is ended and waited for at the latest with this object.
class Rank {
 public:
  Rank(int rank, const Work& work) {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) fail(concat("no pipe for rank ", rank));
    numbers_ = Descriptor(ends[0]);
    const Descriptor out(ends[1]);
    process_ = ::fork();
    if (process_ < 0) fail(concat("no process for rank ", rank));
    if (process_ == 0) run(rank, work, out.get());
  }
  ~Rank() {
    if (process_ < 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  Rank(Rank&& other) noexcept : process_(std::exchange(other.process_, -1)), numbers_(std::move(other.numbers_)) {}
  Rank& operator=(Rank&&) = delete;

  [[nodiscard]] std::vector<double> read_numbers() const {
    std::string bytes;
    std::array<char, 4096> part{};
    for (;;) {
      const ssize_t size = ::read(numbers_.get(), part.data(), part.size());
      if (size < 0 && errno == EINTR) continue;
      if (size < 0) fail("the numbers of a rank");
      if (size == 0) break;
      bytes.append(part.data(), static_cast<std::size_t>(size));
    }
    std::vector<double> numbers(bytes.size() / sizeof(double));
    std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(double));
    return numbers;
  }

  // How it ended; empty when well.
  [[nodiscard]] std::string await_end() {
    int status = 0;
    const bool has_ended = ::waitpid(std::exchange(process_, -1), &status, 0) > 0;
    if (has_ended && status == 0) return "";
    return WIFSIGNALED(status) ? concat("signal ", WTERMSIG(status)) : concat("exit code ", WEXITSTATUS(status));
  }

 private:
  [[noreturn]] static void run(int rank, const Work& work, int out) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      write_all(out, work(rank));
      ::_exit(0);
    } catch (const std::exception& error) {
      std::cerr << concat("rank ", rank, ": ", error.what(), "\n") << std::flush;
      ::_exit(1);
    }
  }

  static void write_all(int out, const std::vector<double>& numbers) {
    const auto* bytes = reinterpret_cast<const char*>(numbers.data());
    std::size_t left = numbers.size() * sizeof(double);
    while (left > 0) {
      const ssize_t written = ::write(out, bytes, left);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail("its numbers could not be handed over");
      bytes += written;
      left -= static_cast<std::size_t>(written);
    }
  }

  pid_t process_ = -1;
  Descriptor numbers_;  // the end of a pipe
};

}  // namespace

std::vector<std::vector<double>> run_forked(const std::string& what, int ranks, const Work& work) {
  std::vector<Rank> started;
  for (int rank = 0; rank < ranks; ++rank) started.emplace_back(rank, work);
  std::vector<std::vector<double>> numbers;
  std::string failures;
  for (std::size_t rank = 0; rank < started.size(); ++rank) {
    numbers.push_back(started[rank].read_numbers());
    const std::string how = started[rank].await_end();
    if (!how.empty()) failures += concat(failures.empty() ? "" : ", ", "rank ", rank, " with ", how);
  }
  if (!failures.empty()) throw RunError(concat(what, ": processes failed: ", failures));
  return numbers;
}

}  // namespace tandem::bench
