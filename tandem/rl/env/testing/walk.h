// Environment and steps of the adapter's tests.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "tandem/rl/env/env_adapter.h"
#include "tandem/rl/env/env_buffers.h"

namespace tandem::rl::testing {

// Walks from a random place to a goal; shows place and number of steps. Action 2 throws, 3 gives NaN, and so on.
struct Walk {
  static Spec spec() {
    return {.id = "Walk-v0",
            .observation = {{.name = "obs", .shape = {2}}},
            .action = Discrete{6},
            .max_episode_steps = 5,
            .reward_threshold = 1.0};
  }
  using Shown = std::vector<float>;

  Shown reset(NumpyGenerator& random) {
    place = random.integers(0, 1000);
    steps = 0;
    return shown();
  }
  StepResult<Shown> step(std::int64_t action) {
    ++steps;
    place += action == 1 ? 1 : 0;
    if (action == 2) throw std::runtime_error("the motor broke");
    if (action == 3) return {shown(), std::numeric_limits<double>::quiet_NaN()};
    if (action == 4) return {{0.0f, std::numeric_limits<float>::infinity()}};
    if (action == 5) return {{1.0f, 2.0f, 3.0f}};
    return {shown(), 0.5 * static_cast<double>(action), place % 10 == 0};
  }
  std::array<std::int64_t, 2> save() const { return {place, steps}; }
  Shown load(std::span<const std::byte> bytes) {
    if (bytes.size() != 16) throw std::invalid_argument("a walk has 16 bytes");
    std::memcpy(&place, bytes.data(), 8);
    std::memcpy(&steps, bytes.data() + 8, 8);
    return shown();
  }
  Shown shown() const { return {static_cast<float>(place), static_cast<float>(steps)}; }

  std::int64_t place = 0, steps = 0;
};

inline std::vector<float> row(const EnvBuffers& buffers, std::size_t e) {
  const auto span = buffers.observation<float>(e);
  return {span.begin(), span.end()};
}

template <typename Group>
void step(Group& group, const EnvBuffers& buffers, const std::vector<std::int64_t>& actions) {
  group.step({.discrete = actions.data()}, buffers.arrays());
}

}  // namespace tandem::rl::testing
