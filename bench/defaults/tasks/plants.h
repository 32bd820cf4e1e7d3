// bench/defaults/tasks/plants.h: plants to be controlled, whose rewards, observations and actions have scales of all
// kinds.
#pragma once
#include <tandem/rl/env/env_concepts.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>

namespace tandem::defaults {

/// A motor that follows an angle. Its torque has no bounds.
struct Servo {
  using Observation = std::array<double, 3>;

  static rl::Spec spec() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return {.id = "Servo-v0",
            .observation = {{.shape = {3}}},
            .action = rl::Box{.low = {-kInfinity}, .high = {kInfinity}},
            .max_episode_steps = 150};
  }

  Observation reset(rl::NumpyGenerator& random) {
    angle = random.uniform(-2, 2);
    goal = random.uniform(-2, 2);
    speed = 0;
    return observation();
  }

  rl::StepResult<Observation> step(std::span<const float> torque) {
    const double pull = std::clamp<double>(torque[0], -100, 100);
    speed += 0.05 * (pull - 0.5 * speed);
    speed = std::clamp(speed, -20.0, 20.0);
    angle += 0.05 * speed;
    const double error = goal - angle;
    return {.observation = observation(), .reward = -(error * error + 0.01 * speed * speed + 0.001 * pull * pull)};
  }

  [[nodiscard]] Observation observation() const { return {angle, speed, goal}; }

  double angle = 0, speed = 0, goal = 0;
};

/// A room that shall have 295 K at a changing temperature outside, heated with 0 to 1 kW. Rewards are thousandths, and
/// temperatures lie far from zero.
struct Heater {
  using Observation = std::array<double, 3>;

  static rl::Spec spec() {
    return {.id = "Heater-v0",
            .observation = {{.shape = {3}}},
            .action = rl::Box{.low = {0}, .high = {1}},
            .max_episode_steps = 500};
  }

  Observation reset(rl::NumpyGenerator& random) {
    room = random.uniform(285, 305);
    wall = room;
    phase = random.uniform(0, 2 * std::numbers::pi);
    time = 0;
    return observation();
  }

  rl::StepResult<Observation> step(std::span<const float> power) {
    const double heat = std::clamp<double>(power[0], 0, 1);
    wall += 0.05 * (room - wall) + 0.02 * (outside() - wall);
    room += 0.1 * (wall - room) + 0.6 * heat;
    time += 1;
    const double error = room - 295;
    return {.observation = observation(), .reward = 1e-3 * (1 - std::min(std::abs(error), 5.0) - 0.1 * heat)};
  }

  [[nodiscard]] double outside() const { return 283 + 8 * std::sin(phase + 0.02 * time); }
  [[nodiscard]] Observation observation() const { return {room, wall, outside()}; }

  double room = 0, wall = 0, phase = 0, time = 0;
};

/// A reservoir above a power station. Water is let out at 0 to 150 m3/s, and earns most when the price is high; it is
/// lost when the reservoir runs over. Rewards are of the order of a million.
struct Reservoir {
  using Observation = std::array<double, 4>;

  static rl::Spec spec() {
    return {.id = "Reservoir-v0",
            .observation = {{.shape = {4}}},
            .action = rl::Box{.low = {0}, .high = {150}},
            .max_episode_steps = 48};
  }

  Observation reset(rl::NumpyGenerator& source) {
    random = &source;
    volume = random->uniform(1000, 4000);
    hour = 0;
    next_inflow();
    return observation();
  }

  rl::StepResult<Observation> step(std::span<const float> outlet) {
    const double flow = std::min(std::clamp<double>(outlet[0], 0, 150), volume / 10);
    const double earned = flow * price() * (0.5 + volume / 5000) * 300;
    volume = std::min(volume + 10 * (inflow - flow), 5000.0);
    hour += 1;
    next_inflow();
    return {.observation = observation(), .reward = earned};
  }

  void next_inflow() { inflow = random->uniform(0, 60); }
  [[nodiscard]] double price() const { return 60 + 40 * std::sin(2 * std::numbers::pi * hour / 24); }
  [[nodiscard]] Observation observation() const { return {volume, inflow, price(), 48 - hour}; }

  rl::NumpyGenerator* random = nullptr;
  double volume = 0, hour = 0, inflow = 0;
};

/// A car that holds a speed against wind for 2,000 steps that nothing ends. Its pedal has a tiny range.
struct Cruise {
  using Observation = std::array<double, 3>;

  static rl::Spec spec() {
    return {.id = "Cruise-v0",
            .observation = {{.shape = {3}}},
            .action = rl::Box{.low = {-0.02}, .high = {0.05}},
            .max_episode_steps = 2000};
  }

  Observation reset(rl::NumpyGenerator& source) {
    random = &source;
    speed = random->uniform(15, 35);
    goal = random->uniform(20, 30);
    wind = 0;
    return observation();
  }

  rl::StepResult<Observation> step(std::span<const float> pedal) {
    const double push = std::clamp<double>(pedal[0], -0.02, 0.05);
    wind = 0.99 * wind + random->uniform(-0.3, 0.3);
    speed += 10 * push - 0.0002 * (speed + wind) * std::abs(speed + wind);
    if (random->random() < 0.002) goal = random->uniform(20, 30);
    return {.observation = observation(), .reward = -std::min(std::abs(goal - speed), 5.0) / 5};
  }

  [[nodiscard]] Observation observation() const { return {speed, wind, goal}; }

  rl::NumpyGenerator* random = nullptr;
  double speed = 0, goal = 0, wind = 0;
};

}  // namespace tandem::defaults
