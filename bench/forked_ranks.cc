#include "bench/forked_ranks.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <iostream>
#include <string>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::bench {
namespace {

using Work = std::function<std::vector<double>(int rank)>;

struct Rank {
  pid_t process = 0;
  int numbers = 0;  // the end of a pipe that it writes to
};

[[noreturn]] void run_rank(int rank, const Work& work, int out) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    const std::vector<double> numbers = work(rank);
    const auto* bytes = reinterpret_cast<const char*>(numbers.data());
    std::size_t left = numbers.size() * sizeof(double);
    while (left > 0) {
      const ssize_t written = ::write(out, bytes, left);
      if (written <= 0) throw RunError("the numbers could not be handed over");
      bytes += written;
      left -= static_cast<std::size_t>(written);
    }
    ::_exit(0);
  } catch (const std::exception& error) {
    std::cerr << concat("rank ", rank, ": ", error.what(), "\n") << std::flush;
    ::_exit(1);
  }
}

Rank start(int rank, const Work& work) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw RunError(concat("no pipe for rank ", rank));
  const pid_t process = ::fork();
  if (process < 0) throw RunError(concat("no process for rank ", rank));
  if (process == 0) run_rank(rank, work, ends[1]);
  ::close(ends[1]);
  return {.process = process, .numbers = ends[0]};
}

std::vector<double> numbers_of(const Rank& rank) {
  std::string bytes;
  std::array<char, 4096> part{};
  for (ssize_t size = 0; (size = ::read(rank.numbers, part.data(), part.size())) > 0;)
    bytes.append(part.data(), static_cast<std::size_t>(size));
  ::close(rank.numbers);
  std::vector<double> numbers(bytes.size() / sizeof(double));
  bytes.copy(reinterpret_cast<char*>(numbers.data()), numbers.size() * sizeof(double));
  return numbers;
}

}  // namespace

std::vector<std::vector<double>> run_forked(int ranks, const Work& work) {
  std::vector<Rank> started;
  for (int rank = 0; rank < ranks; ++rank) started.push_back(start(rank, work));
  std::vector<std::vector<double>> numbers;
  int failed = 0;
  for (const Rank& rank : started) {
    numbers.push_back(numbers_of(rank));
    int status = 0;
    if (::waitpid(rank.process, &status, 0) != rank.process || status != 0) ++failed;
  }
  if (failed > 0) throw RunError(concat(failed, " of ", ranks, " processes failed"));
  return numbers;
}

}  // namespace tandem::bench
