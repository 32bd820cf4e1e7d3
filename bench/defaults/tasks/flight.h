// bench/defaults/tasks/flight.h: hover with two rotors, and land softly.
#pragma once
#include <tandem/rl/env/env_concepts.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>

namespace tandem::defaults {

/// A quadrotor seen from the side, 1 kg, whose two rotors push with 0 to 20 N each. It shall hover at the origin.
/// Hovering needs 4.905 N of both: far from the middle of the bounds.
struct PlanarQuad {
  using Observation = std::array<double, 6>;

  static rl::Spec spec() {
    return {.id = "PlanarQuad-v0",
            .observation = {{.shape = {6}}},
            .action = rl::Box{.low = {0, 0}, .high = {20, 20}},
            .max_episode_steps = 200};
  }

  Observation reset(rl::NumpyGenerator& random) {
    const double x = random.uniform(-1, 1), y = random.uniform(-1, 1);
    state = {x, y, 0, 0, random.uniform(-0.3, 0.3), 0};
    return state;
  }

  rl::StepResult<Observation> step(std::span<const float> push) {
    constexpr double kSeconds = 0.02, kGravity = 9.81;
    const double left = std::clamp<double>(push[0], 0, 20), right = std::clamp<double>(push[1], 0, 20);
    auto& [x, y, vx, vy, tilt, spin] = state;
    vx -= kSeconds * std::sin(tilt) * (left + right);
    vy += kSeconds * (std::cos(tilt) * (left + right) - kGravity);
    spin += kSeconds * (right - left) * 2;
    x += kSeconds * vx;
    y += kSeconds * vy;
    tilt += kSeconds * spin;
    const bool crashed = std::abs(x) > 3 || std::abs(y) > 3 || std::abs(tilt) > 1.2;
    const double cost = 0.3 * (x * x + y * y) + 0.05 * (vx * vx + vy * vy) + 0.3 * tilt * tilt + 0.02 * spin * spin;
    return {.observation = state, .reward = crashed ? -20.0 : std::max(1 - cost, -1.0), .terminated = crashed};
  }

  std::array<double, 6> state{};
};

/// A lander above the ground: off, half or full thrust. The end costs the speed of the impact; fuel costs a little.
struct SoftLander {
  using Observation = std::array<double, 3>;

  static rl::Spec spec() {
    return {
        .id = "SoftLander-v0", .observation = {{.shape = {3}}}, .action = rl::Discrete{3}, .max_episode_steps = 120};
  }

  Observation reset(rl::NumpyGenerator& random) {
    height = random.uniform(20, 40);
    speed = random.uniform(-6, 0);
    fuel = 100;
    return observation();
  }

  rl::StepResult<Observation> step(std::int64_t thrust) {
    constexpr double kSeconds = 0.2;
    const double burnt = std::min(fuel, static_cast<double>(thrust));
    fuel -= burnt;
    speed += kSeconds * (burnt * 1.6 - 1.62);
    height += kSeconds * speed;
    const bool landed = height <= 0, lost = height > 60;
    double reward = -0.02 * burnt;
    if (landed) reward += 20 - 4 * std::abs(speed);
    if (lost) reward -= 50;
    return {.observation = observation(), .reward = reward, .terminated = landed || lost};
  }

  [[nodiscard]] Observation observation() const { return {height, speed, fuel}; }

  double height = 0, speed = 0, fuel = 0;
};

}  // namespace tandem::defaults
