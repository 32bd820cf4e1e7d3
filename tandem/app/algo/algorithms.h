// app/algo/algorithms.h: registers the algorithms of a program: Tandem's own, and those of yours.
//
//   int main(int argc, char** argv) {
//     tandem::app::register_algorithm(std::make_unique<Evolution>());
//     return tandem::app::run_program(argc, argv, tandem::rl::EnvRegistry::native());
//   }
//
// Threads: the main one, before the program does anything else.
#pragma once
#include <memory>

#include "tandem/app/config/algorithm.h"

namespace tandem::app {

/// PPO, DD-PPO, IMPALA and APPO; from the second call on does nothing. run_program() calls it.
void register_native_algorithms();

/// Adds an algorithm behind Tandem's own. Throws ConfigError when its name is taken.
/// Order counts: the words of `algo` are listed in the order of registration, so Tandem's own are registered first by
/// this call if they were not yet.
void register_algorithm(std::unique_ptr<const Algorithm> algorithm);

}  // namespace tandem::app
