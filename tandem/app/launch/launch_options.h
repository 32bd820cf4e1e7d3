// app/launch/launch_options.h: what `tandem launch` is asked to do.
//
// Plain values.
#pragma once
#include <chrono>
#include <string>
#include <vector>

namespace tandem::app {

/// The fate of the other ranks when one fails. A death is any end other than exit code 0, unless the rank was asked to
/// stop.
enum class OnDeath {
  kStop,      // they are ended too
  kContinue,  // they are left alone
  kReplace,   // they are left alone, and the rank is started again
};

struct LaunchOptions {
  int ranks = 1;
  OnDeath on_death = OnDeath::kStop;
  /// How long ranks may take to end after they were asked to; then they are killed.
  std::chrono::milliseconds grace{30'000};
  /// With kReplace: how often each rank is started again before its failure ends the run.
  int max_restarts = 3;
  std::vector<std::string> command = {};  // a path, or a program in PATH, and its arguments
};

}  // namespace tandem::app
