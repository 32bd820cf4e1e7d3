// app/testing/run_captured.h: the program within a test's process.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tandem/app/program.h"
#include "tandem/rl/env/env_registry.h"

namespace tandem::app {

/// The exit code, and what was printed.
struct Outcome {
  int code = 0;
  std::string out, err;
};

/// `tandem` with these arguments.
inline Outcome run_captured(const std::vector<std::string>& arguments,
                            const rl::EnvRegistry& environments = rl::EnvRegistry::native(),
                            const RunObserver& observer = {}) {
  std::vector<const char*> argv{"tandem"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.code = run_program(static_cast<int>(argv.size()), argv.data(), environments, observer);
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

}  // namespace tandem::app
