// Corridor-v0: walk to the bright end of a dark corridor. All that Tandem wants to know of an environment is here.
#pragma once
#include <tandem/rl/env/env_concepts.h>

#include <array>
#include <cstdint>

struct Corridor {
  static constexpr int kLength = 10;

  static tandem::rl::Spec spec() {
    return {.id = "Corridor-v0",
            .observation = {{.name = "obs", .shape = {2}, .low = {0, -1}, .high = {1, 1}}},  // place, light ahead
            .action = tandem::rl::Discrete{2},                                               // back, forward
            .max_episode_steps = 60,
            .reward_threshold = 0.85};
  }

  std::array<float, 2> reset(tandem::rl::NumpyGenerator& random) {
    place_ = static_cast<int>(random.integers(1, kLength - 1));
    bright_end_ = random.integers(0, 2) == 0 ? 0 : kLength;
    return observation();
  }

  tandem::rl::StepResult<std::array<float, 2>> step(std::int64_t action) {
    place_ += action == 1 ? 1 : -1;
    const bool bright = place_ == bright_end_;
    const bool dark = place_ == kLength - bright_end_;
    return {.observation = observation(), .reward = bright ? 1.0 : dark ? -1.0 : -0.01, .terminated = bright || dark};
  }

 private:
  std::array<float, 2> observation() const {
    return {static_cast<float>(place_) / kLength, bright_end_ > 0 ? 1.0f : -1.0f};
  }

  int place_ = 0;
  int bright_end_ = kLength;
};
