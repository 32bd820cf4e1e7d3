// bench/defaults/later/rover.h: a rover that pursues what flies above it, among pillars.
#pragma once
#include <tandem/rl/env/env_concepts.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <span>

namespace tandem::defaults {

/// A rover drives in a yard of 10 x 10 m with seven pillars, which differ between episodes. It sees twelve rays of up
/// to 4 m and the way to a drone that wanders above it. Driving towards the drone pays a metre's worth a metre, each
/// catch 2 more; a collision costs 5 and ends the episode. Orders are a speed of -0.5 to 1.5 m/s and a turn of up to
/// 2 rad/s.
///
/// Mean returns of 200 episodes: -6.6 with random actions, -0.01 with a constant action, 33.9 with the controller.
struct RoverPursuit {
  using Observation = std::array<double, 17>;
  struct Pillar {
    double x = 0, y = 0, radius = 0;
  };

  static rl::Spec spec() {
    return {.id = "RoverPursuit-v0",
            .observation = {{.shape = {17}}},
            .action = rl::Box{.low = {-0.5, -2}, .high = {1.5, 2}},
            .max_episode_steps = 250};
  }

  Observation reset(rl::NumpyGenerator& source) {
    random = &source;
    x = y = 5;
    speed = 0;
    heading = random->uniform(-std::numbers::pi, std::numbers::pi);
    for (Pillar& pillar : pillars) {
      pillar.x = random->uniform(0, 10);
      pillar.y = random->uniform(0, 10);
      pillar.radius = random->uniform(0.3, 0.8);
      if (std::hypot(pillar.x - x, pillar.y - y) < pillar.radius + 0.8) pillar.x += 2.5;
    }
    draw_target();
    return observation();
  }

  rl::StepResult<Observation> step(std::span<const float> order) {
    const double before = away();
    speed += 0.3 * (std::clamp<double>(order[0], -0.5, 1.5) - speed);
    heading += 0.1 * std::clamp<double>(order[1], -2, 2);
    x += 0.1 * speed * std::cos(heading);
    y += 0.1 * speed * std::sin(heading);
    double reward = before - away();
    fly();
    if (nearest() < 0.2) return {.observation = observation(), .reward = reward - 5, .terminated = true};
    if (away() < 0.5) {
      reward += 2;
      draw_target();
    }
    return {.observation = observation(), .reward = reward};
  }

  void draw_target() {
    target_x = random->uniform(1, 9);
    target_y = random->uniform(1, 9);
    course = random->uniform(-std::numbers::pi, std::numbers::pi);
  }

  // The drone turns back to the middle at the edge of the yard.
  void fly() {
    course += random->uniform(-0.3, 0.3);
    target_x += 0.05 * std::cos(course);
    target_y += 0.05 * std::sin(course);
    if (target_x < 1 || target_x > 9 || target_y < 1 || target_y > 9) course = std::atan2(5 - target_y, 5 - target_x);
  }

  [[nodiscard]] double away() const { return std::hypot(target_x - x, target_y - y); }

  // The room to the nearest wall or pillar.
  [[nodiscard]] double nearest() const {
    double room = std::min({x, 10 - x, y, 10 - y});
    for (const Pillar& p : pillars) room = std::min(room, std::hypot(p.x - x, p.y - y) - p.radius);
    return room;
  }

  // How far the rover sees in a direction.
  [[nodiscard]] double ray(double angle) const {
    const double dx = std::cos(angle), dy = std::sin(angle);
    double seen = 4;
    for (const Pillar& p : pillars) {
      const double along = (p.x - x) * dx + (p.y - y) * dy, aside = (p.x - x) * dy - (p.y - y) * dx;
      if (along > 0 && std::abs(aside) < p.radius)
        seen = std::min(seen, along - std::sqrt(p.radius * p.radius - aside * aside));
    }
    if (dx > 1e-9) seen = std::min(seen, (10 - x) / dx);
    if (dx < -1e-9) seen = std::min(seen, -x / dx);
    if (dy > 1e-9) seen = std::min(seen, (10 - y) / dy);
    if (dy < -1e-9) seen = std::min(seen, -y / dy);
    return seen;
  }

  [[nodiscard]] Observation observation() const {
    Observation shown{};
    for (std::size_t i = 0; i < 12; ++i) shown[i] = ray(heading + 2 * std::numbers::pi * static_cast<double>(i) / 12);
    const double bearing = std::atan2(target_y - y, target_x - x) - heading;
    shown[12] = away();
    shown[13] = std::cos(bearing);
    shown[14] = std::sin(bearing);
    shown[15] = speed;
    shown[16] = std::cos(course - heading);
    return shown;
  }

  rl::NumpyGenerator* random = nullptr;
  std::array<Pillar, 7> pillars{};
  double x = 0, y = 0, speed = 0, heading = 0, target_x = 0, target_y = 0, course = 0;
};

}  // namespace tandem::defaults
