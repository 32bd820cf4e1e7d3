// default_task_play TASK STEPS: plays a task of the study, or one written later, with drawn actions, and prints a line
// a step: reward, whether the episode was terminated and truncated, and the observation to act on next.
// bench/defaults/twins_parity.py plays the Python twin with the same actions.
#include <tandem/rl/env/env_buffers.h>
#include <tandem/rl/env/env_registry.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <tuple>
#include <type_traits>
#include <vector>

#include "../later/tasks.h"
#include "tasks.h"

namespace tandem::defaults {
namespace {

rl::EnvRegistry tasks() {
  rl::EnvRegistry all;
  [&]<typename... Task>(std::type_identity<std::tuple<Task...>>) {
    (all.add<Task>(), ...);
  }(std::type_identity<std::tuple<TANDEM_DEFAULT_TASKS, TANDEM_LATER_TASKS>>());
  return all;
}

// In place of bounds that are not there.
double bound(double value) { return std::isfinite(value) ? value : value < 0 ? -3.0 : 150.0; }

void print_observation(const rl::EnvBuffers& buffers, rl::ElementType type) {
  if (type == rl::ElementType::kInt64) {
    for (const std::int64_t value : buffers.observation<std::int64_t>(0)) std::printf(" %ld", static_cast<long>(value));
  } else if (type == rl::ElementType::kUInt8) {
    for (const std::uint8_t value : buffers.observation<std::uint8_t>(0)) std::printf(" %d", value);
  } else if (type == rl::ElementType::kFloat64) {
    for (const double value : buffers.observation<double>(0)) std::printf(" %.17g", value);
  } else {
    for (const float value : buffers.observation<float>(0)) std::printf(" %.9g", value);
  }
}

void play(const std::string& name, int steps) {
  const std::unique_ptr<rl::EnvGroup> group = tasks().make(name, 1);
  rl::EnvBuffers buffers(*group);
  group->reset(std::vector<std::uint64_t>{5}, buffers.arrays());
  rl::NumpyGenerator random(11);
  const rl::Spec& spec = group->spec();
  std::vector<std::int64_t> choices;
  std::vector<float> numbers;
  for (int step = 0; step < steps; ++step) {
    choices.clear();
    numbers.clear();
    if (const auto* box = std::get_if<rl::Box>(&spec.action)) {
      for (std::size_t i = 0; i < box->low.size(); ++i)
        numbers.push_back(static_cast<float>(random.uniform(bound(box->low[i]), bound(box->high[i]))));
    } else if (const auto* several = std::get_if<rl::MultiDiscrete>(&spec.action)) {
      for (const std::int64_t options : several->n) choices.push_back(random.integers(0, options));
    } else {
      choices.push_back(random.integers(0, std::get<rl::Discrete>(spec.action).n));
    }
    group->step(numbers.empty() ? rl::EnvActions{.discrete = choices.data()} : rl::EnvActions{.box = numbers.data()},
                buffers.arrays());
    std::printf("%.17g %d %d", buffers.reward()[0], buffers.terminated()[0], buffers.truncated()[0]);
    print_observation(buffers, spec.observation[0].type);
    std::printf("\n");
  }
}

}  // namespace
}  // namespace tandem::defaults

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: default_task_play TASK STEPS\n";
    return 2;
  }
  tandem::defaults::play(argv[1], static_cast<int>(std::strtol(argv[2], nullptr, 10)));
  return 0;
}
