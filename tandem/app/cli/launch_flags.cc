#include "tandem/app/cli/launch_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "tandem/app/config/choices.h"
#include "tandem/app/config/value_format.h"
#include "tandem/base/text.h"

namespace tandem::app {

template <>
struct Choices<OnDeath> {
  static constexpr std::array kAll{Choice{OnDeath::kStop, "stop"}, Choice{OnDeath::kContinue, "continue"},
                                   Choice{OnDeath::kReplace, "replace"}};
};

namespace {

// These limits catch slips of the pen; the system may allow fewer.
constexpr std::int64_t kMostRanks = 1000, kMostRestarts = 1'000'000;
// seconds: a day
constexpr double kLongestGrace = 86'400;

constexpr const char* kLaunchExample = R"(Example:
  tandem launch --ranks 4 -- ./my_program --its-flags
  tandem launch --ranks 2 --on-death replace -- python train.py
  tandem launch --ranks 4 --on-death replace -- tandem train --algo dd_ppo --env CartPole-v1 --survivors take_over

Each rank finds out who it is from RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as under
torchrun; a C++ program calls tandem::comm::launcher_environment(). The store that the ranks meet in is the launcher's.

Every line that a rank prints begins with its rank. Ctrl-C is passed on; another one kills the ranks. SIGTERM, SIGHUP,
SIGUSR1 and SIGUSR2 are passed on too. Nothing outlives the launcher, however it ends, but daemons.
The exit code is that of the first rank that failed (128 and the number for a signal), or 130 when ranks were stopped: a
rank that ends with 130 has not failed, is not started again, and the others are asked to end. A training that its
survivors completed has not failed. A rank that its survivors went on without, since it was silent, is killed, and so is
one that stays stopped (SIGSTOP) before they have let it in, or when all others have ended and some of them failed.
)";

// Leaves `value` as it was when the text is no such integer.
void read_count(const char* flag, const std::string& text, std::int64_t least, std::int64_t most, int& value,
                std::vector<std::string>& faults) {
  const std::optional<std::int64_t> number = read_integer(text);
  if (number && *number >= least && *number <= most) {
    value = static_cast<int>(*number);
  } else {
    faults.push_back(concat(flag, " ", text, ": expected an integer from ", least, " to ", most));
  }
}

}  // namespace

LaunchFlags::LaunchFlags(CLI::App& command) {
  command.add_option("--ranks", ranks_, "Processes to start.")->type_name("N");
  command
      .add_option("--on-death", on_death_, "When a rank fails: end the others, leave them, or start it again. [stop]")
      ->type_name("stop|continue|replace");
  command
      .add_option(
          "--grace", grace_,
          "How long ranks may take to end when asked to, before they are killed, and how long they may stay stopped "
          "(SIGSTOP) when all others have ended and some failed. [30]")
      ->type_name("SECONDS");
  command.add_option("--max-restarts", max_restarts_, "How often each rank is started again. [3]")->type_name("N");
  command.footer(kLaunchExample);
}

LaunchOptions LaunchFlags::options(std::span<const std::string> words, std::vector<std::string>& faults) const {
  LaunchOptions options;
  if (ranks_.empty()) {
    faults.emplace_back("--ranks is not given: how many processes to start, as in --ranks 2");
  } else {
    options.ranks = read_ranks(ranks_, faults);
  }
  if (!on_death_.empty()) {
    const std::optional<OnDeath> chosen = value_of<OnDeath>(on_death_);
    if (!chosen) faults.push_back(concat("--on-death ", on_death_, ": expected ", list_of_choices<OnDeath>()));
    options.on_death = chosen.value_or(options.on_death);
  }
  if (!grace_.empty()) {
    const std::optional<double> seconds = read_number(grace_);
    if (seconds && *seconds >= 0 && *seconds <= kLongestGrace) {
      options.grace = std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000));
    } else {
      faults.push_back(concat("--grace ", grace_, ": expected seconds from 0 to ", kLongestGrace));
    }
  }
  if (!max_restarts_.empty()) {
    read_count("--max-restarts", max_restarts_, 0, kMostRestarts, options.max_restarts, faults);
    if (options.on_death != OnDeath::kReplace) {
      faults.push_back(concat("--max-restarts ", max_restarts_, ": has no effect without --on-death replace"));
    }
  }
  if (words.empty() || words.front().empty()) {
    faults.emplace_back(
        "there is no command to launch: put it behind --, as in tandem launch --ranks 2 -- ./my_program");
  }
  options.command.assign(words.begin(), words.end());
  return options;
}

int read_ranks(const std::string& text, std::vector<std::string>& faults) {
  int ranks = 1;
  read_count("--ranks", text, 1, kMostRanks, ranks, faults);
  return ranks;
}

// Done before CLI11 parses, which would take flags behind "--" for positionals of `launch`.
std::size_t launch_arguments(std::span<const std::string> arguments) {
  const bool is_launch = !arguments.empty() && arguments.front() == "launch";
  const auto end = is_launch ? std::find(arguments.begin(), arguments.end(), "--") : arguments.end();
  return static_cast<std::size_t>(end - arguments.begin());
}

}  // namespace tandem::app
