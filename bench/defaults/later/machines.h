// bench/defaults/later/machines.h: a crane and a chemical reactor.
#pragma once
#include <tandem/rl/env/env_concepts.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tandem::defaults {

/// A crane brings a swinging load along a rail of 20 m. Each goal that the load reaches nearly at rest pays 10 and
/// makes way for the next. Rope and load differ between episodes. The motor pushes with up to 800 N.
///
/// Mean returns of 200 episodes: -41.8 with random actions, -45.5 with a constant action, 14.9 with the controller.
struct GantryCrane {
  using Observation = std::array<double, 7>;

  static rl::Spec spec() {
    return {.id = "GantryCrane-v0",
            .observation = {{.shape = {7}}},
            .action = rl::Box{.low = {-800}, .high = {800}},
            .max_episode_steps = 300};
  }

  Observation reset(rl::NumpyGenerator& source) {
    random = &source;
    place = random->uniform(2, 18);
    rope = random->uniform(3, 8);
    load = random->uniform(100, 400);
    speed = swing = swing_speed = 0;
    draw_goal();
    return observation();
  }

  rl::StepResult<Observation> step(std::span<const float> force) {
    const double push = std::clamp<double>(force[0], -800, 800);
    for (int part = 0; part < 4; ++part) advance(push);
    const double away = std::abs(goal - hook());
    const double drift = speed + rope * swing_speed * std::cos(swing);
    double reward = -0.02 * away;
    if (away < 0.5 && std::abs(drift) < 0.4) {
      reward += 10;
      draw_goal();
    }
    return {.observation = observation(), .reward = reward};
  }

  // The trolley weighs 200 kg. Buffers stop it at the ends of the rail.
  void advance(double push) {
    constexpr double kSeconds = 0.025;
    const double s = std::sin(swing), c = std::cos(swing);
    const double pull = load * s * (rope * swing_speed * swing_speed + 9.81 * c);
    const double a = (push - 60 * speed + pull) / (200 + load * s * s);
    swing_speed += kSeconds * (-(a * c + 9.81 * s) / rope - 0.02 * swing_speed);
    speed += kSeconds * a;
    place += kSeconds * speed;
    swing += kSeconds * swing_speed;
    if (place < 0 || place > 20) {
      place = std::clamp(place, 0.0, 20.0);
      speed = 0;
    }
  }

  void draw_goal() {
    do {
      goal = random->uniform(2, 18);
    } while (std::abs(goal - hook()) < 4);
  }

  [[nodiscard]] double hook() const { return place + rope * std::sin(swing); }
  [[nodiscard]] Observation observation() const { return {place, speed, swing, swing_speed, goal, rope, load}; }

  rl::NumpyGenerator* random = nullptr;
  double place = 0, speed = 0, swing = 0, swing_speed = 0, goal = 0, rope = 0, load = 0;
};

/// A stirred tank whose reaction heats itself, near the temperature at which it runs away. Two valves are moved by
/// increments: the coolant's temperature by up to 5 K, the flow by 2 l/min. Wanted are a share of what is not yet
/// converted and a flow, which change now and then. A step pays up to 0.01; above 400 K the reactor is shut down for
/// -1. Temperatures lie around 350, shares around 0.5.
///
/// Mean returns of 200 episodes: -0.80 with random actions, 0.72 with a constant action, 3.61 with the controller.
struct StirredReactor {
  using Observation = std::array<double, 7>;

  static rl::Spec spec() {
    return {.id = "StirredReactor-v0",
            .observation = {{.shape = {7}}},
            .action = rl::MultiDiscrete{{5, 3}},
            .max_episode_steps = 400};
  }

  Observation reset(rl::NumpyGenerator& source) {
    random = &source;
    share = random->uniform(0.4, 0.8);
    kelvin = random->uniform(335, 355);
    coolant = random->uniform(315, 325);
    flow = random->uniform(90, 110);
    feed = random->uniform(347, 353);
    draw_wishes();
    return observation();
  }

  rl::StepResult<Observation> step(std::span<const std::int64_t> steps) {
    constexpr std::array<double, 5> kCoolant{-5, -1, 0, 1, 5};
    coolant = std::clamp(coolant + kCoolant[static_cast<std::size_t>(steps[0])], 290.0, 350.0);
    flow = std::clamp(flow + 2 * static_cast<double>(steps[1] - 1), 80.0, 120.0);
    for (int part = 0; part < 5; ++part) {
      const double rate = 7.2e10 * std::exp(-8750 / kelvin) * share;
      const double warming = flow / 100 * (feed - kelvin) + 209.2 * rate;
      share += 0.01 * (flow / 100 * (1 - share) - rate);
      kelvin += 0.01 * (warming + 4 * (coolant - kelvin));
      if (kelvin > 400) return {.observation = observation(), .reward = -1, .terminated = true};
    }
    if (random->random() < 0.01) draw_wishes();
    feed = std::clamp(feed + random->uniform(-0.2, 0.2), 345.0, 355.0);
    const double error = std::abs(share - wanted), flow_error = std::abs(flow - wanted_flow);
    return {.observation = observation(),
            .reward = 0.007 * (1 - std::min(error / 0.2, 1.0)) + 0.003 * (1 - std::min(flow_error / 20, 1.0))};
  }

  void draw_wishes() {
    wanted = random->uniform(0.35, 0.65);
    wanted_flow = random->uniform(85, 115);
  }

  [[nodiscard]] Observation observation() const { return {share, kelvin, coolant, flow, feed, wanted, wanted_flow}; }

  rl::NumpyGenerator* random = nullptr;
  double share = 0, kelvin = 0, coolant = 0, flow = 0, feed = 0, wanted = 0, wanted_flow = 0;
};

}  // namespace tandem::defaults
