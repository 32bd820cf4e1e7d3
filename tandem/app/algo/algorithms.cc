#include "tandem/app/algo/algorithms.h"

#include <utility>

#include "tandem/app/algo/native.h"

namespace tandem::app {

void register_native_algorithms() {
  // A local static runs once, also when a test and run_program() both ask.
  static const bool once = [] {
    add_algorithm(make_ppo());
    add_algorithm(make_dd_ppo());
    add_algorithm(make_impala());
    add_algorithm(make_appo());
    add_algorithm(make_sac());
    add_algorithm(make_td3());
    add_algorithm(make_ddpg());
    add_algorithm(make_dqn());
    return true;
  }();
  (void)once;
}

void register_algorithm(std::unique_ptr<const Algorithm> algorithm) {
  register_native_algorithms();
  add_algorithm(std::move(algorithm));
}

}  // namespace tandem::app
