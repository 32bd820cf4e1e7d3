// A plugin that takes the process for its own: at the 3,000th step of its environments it does what BAD says, on the
// rank that BAD_RANK names, or on all.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cfenv>
#include <csignal>
#include <cstdlib>
#include <locale>
#include <stdexcept>
#include <string>
#include <thread>

#include "tandem/rl/env/plugin.h"

namespace {

using tandem::rl::NumpyGenerator;
using tandem::rl::StepResult;

struct Grouping : std::numpunct<char> {
  [[nodiscard]] char do_thousands_sep() const override { return '.'; }
  [[nodiscard]] char do_decimal_point() const override { return ','; }
  [[nodiscard]] std::string do_grouping() const override { return "\3"; }
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets variables
  return value == nullptr ? "" : value;
}

void misbehave(const std::string& how) {
  if (how == "exit") std::exit(0);  // NOLINT(concurrency-mt-unsafe): that is the point
  if (how == "_exit") ::_exit(0);
  if (how == "throw") std::thread([] { throw std::runtime_error("the simulator's own thread fell over"); }).join();
  if (how == "chdir" && ::chdir("/") != 0) std::abort();
  if (how == "round") std::fesetround(FE_UPWARD);
  if (how == "locale") std::locale::global(std::locale(std::locale::classic(), new Grouping));
  if (how == "signals") std::signal(SIGTERM, SIG_IGN);
  if (how == "close012") {
    for (int descriptor = 0; descriptor < 3; ++descriptor) ::close(descriptor);
  }
  if (how == "closemetrics") {
    for (int descriptor = 3; descriptor < 1024; ++descriptor) {
      std::array<char, 4096> path{};
      const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
      if (::readlink(link.c_str(), path.data(), path.size() - 1) < 0) continue;
      if (!std::string(path.data()).ends_with("/metrics.jsonl")) continue;
      ::dup2(::open(variable("FOREIGN").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600), descriptor);
    }
  }
}

// As a library may that is built on a toolkit: from its loading on.
[[maybe_unused]] const bool kIsLoaded = [] {
  if (variable("BAD") == "early_locale") misbehave("locale");
  return true;
}();

struct Leaving {
  using Place = std::array<float, 1>;
  static tandem::rl::Spec spec() {
    return {.id = "Leaving-v0",
            .observation = {{.shape = {1}}},
            .action = tandem::rl::Discrete{2},
            .max_episode_steps = 50};
  }
  Place reset(NumpyGenerator& random) {
    place = static_cast<float>(random.integers(0, 5));
    return {place};
  }
  StepResult<Place> step(std::int64_t action) {
    static std::atomic<int> steps{0};
    const bool is_it = ++steps == 3000 && (variable("BAD_RANK").empty() || variable("BAD_RANK") == variable("RANK"));
    if (is_it) misbehave(variable("BAD"));
    place += action == 1 ? 1 : -1;
    return {.observation = {place}, .reward = place >= 10 ? 1 : -0.01, .terminated = place >= 10};
  }
  float place = 0;
};

}  // namespace

TANDEM_ENV_PLUGIN(Leaving);
