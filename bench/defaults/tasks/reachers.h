// bench/defaults/tasks/reachers.h: bring a point, or the tip of an arm, to a goal.
#pragma once
#include <tandem/rl/env/env_concepts.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <span>

namespace tandem::defaults {

/// A mass of 1 kg on a plane with friction, pushed by a force. The observation is place, velocity and the way to the
/// goal.
struct PointReach {
  using Observation = std::array<double, 6>;

  static rl::Spec spec() {
    return {.id = "PointReach-v0",
            .observation = {{.shape = {6}}},
            .action = rl::Box{.low = {-1, -1}, .high = {1, 1}},
            .max_episode_steps = 100};
  }

  Observation reset(rl::NumpyGenerator& random) {
    for (double& x : place) x = random.uniform(-1, 1);
    for (double& x : goal) x = random.uniform(-1, 1);
    velocity = {};
    return observation();
  }

  rl::StepResult<Observation> step(std::span<const float> force) {
    for (std::size_t i = 0; i < 2; ++i) {
      velocity[i] = 0.95 * velocity[i] + 0.1 * force[i];
      place[i] += 0.1 * velocity[i];
    }
    const Observation shown = observation();
    return {.observation = shown, .reward = -std::hypot(shown[4], shown[5])};
  }

  [[nodiscard]] Observation observation() const {
    return {place[0], place[1], velocity[0], velocity[1], goal[0] - place[0], goal[1] - place[1]};
  }

  std::array<double, 2> place{}, velocity{}, goal{};
};

/// An arm of two links of 1 m whose motors set joint speeds. The bounds are not symmetric: zero is no special action.
struct ArmReach {
  using Observation = std::array<double, 8>;

  static rl::Spec spec() {
    return {.id = "ArmReach-v0",
            .observation = {{.shape = {8}}},
            .action = rl::Box{.low = {-1, -0.5}, .high = {1, 2}},
            .max_episode_steps = 100};
  }

  Observation reset(rl::NumpyGenerator& random) {
    for (double& angle : joint) angle = random.uniform(-0.1, 0.1);
    speed = {};
    const double angle = random.uniform(0, 2 * std::numbers::pi), distance = random.uniform(0.3, 1.8);
    goal = {distance * std::cos(angle), distance * std::sin(angle)};
    return observation();
  }

  rl::StepResult<Observation> step(std::span<const float> torque) {
    for (std::size_t i = 0; i < 2; ++i) {
      speed[i] = 0.9 * speed[i] + 0.3 * torque[i];
      joint[i] += 0.3 * speed[i];
    }
    const Observation shown = observation();
    return {.observation = shown, .reward = -std::hypot(shown[6], shown[7])};
  }

  [[nodiscard]] Observation observation() const {
    const double x = std::cos(joint[0]) + std::cos(joint[0] + joint[1]);
    const double y = std::sin(joint[0]) + std::sin(joint[0] + joint[1]);
    return {std::cos(joint[0]), std::sin(joint[0]), std::cos(joint[1]), std::sin(joint[1]),
            speed[0],           speed[1],           goal[0] - x,        goal[1] - y};
  }

  std::array<double, 2> joint{}, speed{}, goal{};
};

}  // namespace tandem::defaults
