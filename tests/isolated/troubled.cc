// A plugin whose environment does what no environment should: at the step `at` of its process, over all of its
// environments, what the option `fault` says; or throws at the step `at` of each episode (fragile).
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cfenv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tandem/rl/env/plugin.h"

namespace {

using tandem::rl::NumpyGenerator;
using tandem::rl::StepResult;

// The memory that is shared with the training, full of ones.
void scribble() {
  struct stat status {};
  if (::fstat(4, &status) != 0) std::abort();
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 4, 0);
  if (memory == MAP_FAILED) std::abort();
  std::memset(memory, 0xFF, bytes);
}

// Until the process is ended from outside.
void leak() {
  for (;;) {
    constexpr std::size_t kBytes = 8 << 20;
    char* const lost = static_cast<char*>(std::malloc(kBytes));
    if (lost == nullptr) std::abort();
    std::memset(lost, 1, kBytes);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void wait_for_ever() {
  for (;;) ::pause();
}

// A process that holds whatever this one does, for half a minute, or where it `leaves` this one's group until the
// training has let the socket go.
pid_t start_holder(bool leaves) {
  const pid_t id = ::fork();
  if (id != 0) return id;
  if (leaves) ::setsid();
  pollfd wait{leaves ? 3 : -1, POLLRDHUP, 0};
  ::poll(&wait, 1, 30'000);
  ::_exit(0);
}

// What a process that a simulator starts must not get, and what is sent to the training must not reach this one.
void look_around() {
  if ((::fcntl(3, F_GETFD) & ::fcntl(4, F_GETFD) & FD_CLOEXEC) == 0 || ::getpgrp() != ::getpid()) std::abort();
}

double third() {
  volatile double one = 1, three = 3;
  return one / three;
}

void misbehave(const std::string& fault) {
  if (fault == "segv") {
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer would turn it into an exit code
    ::raise(SIGSEGV);
  }
  if (fault == "exit") std::exit(0);  // NOLINT(concurrency-mt-unsafe): that is the point
  if (fault == "_exit") ::_exit(0);
  if (fault == "kill" || fault == "early" || fault == "late") ::raise(SIGKILL);
  if (fault == "held") {
    (void)start_holder(true);
    ::_exit(0);
  }
  if (fault == "child") {
    std::printf("%d\n", start_holder(false));
    std::fflush(stdout);
  }
  if (fault == "look") look_around();
  if (fault == "stop") ::raise(SIGSTOP);
  if (fault == "hang") wait_for_ever();
  if (fault == "leak") leak();
  if (fault == "throw") throw std::runtime_error("the simulator fell over");
  if (fault == "thread") std::thread([] { throw std::runtime_error("a thread of the simulator"); }).join();
  if (fault == "scribble") scribble();
  if (fault == "shorten" && ::ftruncate(4, 0) == 0) std::abort();
  if (fault == "signals") {
    for (const int number : {SIGTERM, SIGINT, SIGPIPE, SIGCHLD}) std::signal(number, SIG_DFL);
    ::raise(SIGTERM);
  }
  if (fault == "close") {
    for (int descriptor = 0; descriptor < 64; ++descriptor) ::close(descriptor);
  }
  if (fault == "print") {
    std::puts("a line of output\x1b[2J");
    std::fflush(stdout);
    std::fputs("a line of errors\n", stderr);
  }
  if (fault == "flood") {
    const std::string line(1000, 'x');
    for (int i = 0; i < 5000; ++i) std::puts(line.c_str());
    std::fflush(stdout);
  }
}

struct Troubled {
  using Shown = std::array<float, 2>;  // where the episode began, steps
  struct Options {
    std::string fault = "none";
    std::int64_t at = 1;
  };
  static tandem::rl::OptionsOf<Options> options() {
    return {{"fault", &Options::fault, "What it does."}, {"at", &Options::at, "In which step.", {.least = 1}}};
  }
  static tandem::rl::MetricsOf<Troubled> metrics() {
    return {{"begin", [](const Troubled& it) { return static_cast<double>(it.shown[0]); }, "Where it began."}};
  }
  void configure(const Options& options) {
    its = options;
    if (its.fault != "farewell" || end.use_count() > 0) return;
    end = std::shared_ptr<const void>(nullptr, [](const void*) {
      std::puts("farewell");
      std::fflush(stdout);
    });
  }
  static tandem::rl::Spec spec() {
    return {.id = "Troubled-v0",
            .observation = {{.shape = {2}}},
            .action = tandem::rl::Discrete{2},
            .max_episode_steps = 40};
  }
  Shown reset(NumpyGenerator& random) {
    if (its.fault == "rounding") std::fesetround(FE_UPWARD);
    shown = {static_cast<float>(random.uniform(0, 1)), 0.0F};
    return shown;
  }
  StepResult<Shown> step(std::int64_t action) {
    static std::int64_t steps = 0;
    if (++steps == its.at) misbehave(its.fault);
    if (its.fault == "loaded" && steps == 1 && shown[1] > 0)
      ::raise(SIGKILL);  // within an episode that it did not begin
    // An exception before the process ends: in the group's step before that one, or in the same.
    if ((its.fault == "early" && steps == its.at - 4) || (its.fault == "late" && steps == its.at - 1))
      throw std::runtime_error("it fell over");
    if (its.fault == "fragile" && shown[1] + 1 == static_cast<float>(its.at)) throw std::runtime_error("it fell over");
    ++shown[1];
    return {.observation = shown,
            .reward = its.fault == "rounding" ? third() : static_cast<double>(action),
            .terminated = shown[1] >= 25};
  }
  [[nodiscard]] Shown save() const { return shown; }
  Shown load(std::span<const std::byte> state) {
    std::memcpy(shown.data(), state.data(), sizeof shown);
    return shown;
  }
  Options its;
  Shown shown{};
  std::shared_ptr<const void> end;  // says so
};

}  // namespace

TANDEM_ENV_PLUGIN(Troubled);
