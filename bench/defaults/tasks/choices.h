// bench/defaults/tasks/choices.h: tasks whose actions are choices.
#pragma once
#include <tandem/rl/env/env_concepts.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tandem::defaults {

/// Five arms in eight contexts; an episode is one pull. In each context one arm pays with 0.9, the others with 0.4.
struct ContextBandit {
  using Observation = std::array<float, 8>;

  static rl::Spec spec() {
    return {
        .id = "ContextBandit-v0", .observation = {{.shape = {8}}}, .action = rl::Discrete{5}, .max_episode_steps = 1};
  }

  Observation reset(rl::NumpyGenerator& source) {
    random = &source;
    context = random->integers(0, 8);
    return observation();
  }

  rl::StepResult<Observation> step(std::int64_t arm) {
    const double chance = arm == (3 * context + 1) % 5 ? 0.9 : 0.4;
    return {.observation = observation(), .reward = random->random() < chance ? 1.0 : 0.0, .terminated = true};
  }

  [[nodiscard]] Observation observation() const {
    Observation shown{};
    shown[static_cast<std::size_t>(context)] = 1;
    return shown;
  }

  rl::NumpyGenerator* random = nullptr;
  std::int64_t context = 0;
};

/// A room of 7 x 7 cells: take the key in one corner, then leave by the door in another. Only leaving pays.
struct KeyDoor {
  using Observation = std::array<std::int64_t, 3>;

  static rl::Spec spec() {
    return {.id = "KeyDoor-v0",
            .observation = {{.type = rl::ElementType::kInt64, .shape = {3}, .low = {0, 0, 0}, .high = {6, 6, 1}}},
            .action = rl::Discrete{4},
            .max_episode_steps = 100};
  }

  Observation reset(rl::NumpyGenerator& random) {
    x = random.integers(0, 7);
    y = random.integers(0, 7);
    key = 0;
    return {x, y, key};
  }

  rl::StepResult<Observation> step(std::int64_t way) {
    constexpr std::array<std::int64_t, 4> kRight{1, -1, 0, 0}, kDown{0, 0, 1, -1};
    x = std::clamp<std::int64_t>(x + kRight[static_cast<std::size_t>(way)], 0, 6);
    y = std::clamp<std::int64_t>(y + kDown[static_cast<std::size_t>(way)], 0, 6);
    if (x == 0 && y == 6) key = 1;
    const bool out = key == 1 && x == 6 && y == 0;
    return {.observation = {x, y, key}, .reward = out ? 1.0 : -0.005, .terminated = out};
  }

  std::int64_t x = 0, y = 0, key = 0;
};

/// Three switches of 3, 4 and 5 places, to be set as three dials show. A reward of 1 when all are right, else 0.1 for
/// each that is.
struct SwitchBoard {
  using Observation = std::array<float, 12>;

  static rl::Spec spec() {
    return {.id = "SwitchBoard-v0",
            .observation = {{.shape = {12}}},
            .action = rl::MultiDiscrete{{3, 4, 5}},
            .max_episode_steps = 40};
  }

  Observation reset(rl::NumpyGenerator& source) {
    random = &source;
    return draw();
  }

  rl::StepResult<Observation> step(std::span<const std::int64_t> places) {
    int right = 0;
    for (std::size_t i = 0; i < 3; ++i) right += places[i] == shown[i] ? 1 : 0;
    return {.observation = draw(), .reward = right == 3 ? 1.0 : 0.1 * right};
  }

  Observation draw() {
    Observation dials{};
    std::size_t first = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const auto places = static_cast<std::int64_t>(i) + 3;
      shown[i] = random->integers(0, places);
      dials[first + static_cast<std::size_t>(shown[i])] = 1;
      first += static_cast<std::size_t>(places);
    }
    return dials;
  }

  rl::NumpyGenerator* random = nullptr;
  std::array<std::int64_t, 3> shown{};
};

/// A crossing of two roads: hold the lights or switch them, which costs three steps of amber. Each waiting car costs 1
/// a step, so rewards are minus some dozens.
struct Crossing {
  using Observation = std::array<double, 4>;

  static rl::Spec spec() {
    return {.id = "Crossing-v0", .observation = {{.shape = {4}}}, .action = rl::Discrete{2}, .max_episode_steps = 200};
  }

  Observation reset(rl::NumpyGenerator& source) {
    random = &source;
    for (double& cars : waiting) cars = static_cast<double>(random->integers(0, 20));
    green = 0;
    amber = 0;
    return observation();
  }

  rl::StepResult<Observation> step(std::int64_t change) {
    if (amber > 0) {
      if (--amber == 0) green = 1 - green;
    } else if (change == 1) {
      amber = 3;
    }
    constexpr std::array<double, 2> kArrives{0.5, 0.2};
    for (std::size_t road = 0; road < 2; ++road) {
      if (random->random() < kArrives[road] && waiting[road] < 60) waiting[road] += 1;
    }
    auto& flowing = waiting[static_cast<std::size_t>(green)];
    if (amber == 0) flowing = std::max(0.0, flowing - 1);
    return {.observation = observation(), .reward = -(waiting[0] + waiting[1])};
  }

  [[nodiscard]] Observation observation() const {
    return {waiting[0], waiting[1], static_cast<double>(green), static_cast<double>(amber)};
  }

  rl::NumpyGenerator* random = nullptr;
  std::array<double, 2> waiting{};
  int green = 0, amber = 0;
};

}  // namespace tandem::defaults
