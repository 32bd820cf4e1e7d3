// Environments with goals of tests: a point on a line that is to be brought to a place.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <tuple>

#include "tandem/rl/env/env_concepts.h"

namespace tandem::rl::testing {

/// Its numbers are float64, and differ where float32 does not tell them apart. Nothing ends an episode but its limit.
struct Reach {
  using Number = std::array<double, 1>;
  using Seen = std::tuple<Number, Number, Number>;
  static constexpr double kStart = 1e9, kNear = 0.1;

  static Spec spec() {
    Spec spec{.id = "Reach-v0", .action = Box{{-1}, {1}}, .max_episode_steps = 12};
    for (const char* name : {"observation", "achieved_goal", "desired_goal"})
      spec.observation.push_back({.name = name, .type = ElementType::kFloat64, .shape = {1}});
    return spec;
  }
  Seen reset(NumpyGenerator& random) {
    place = {kStart};
    goal = {kStart + random.uniform(-2, 2)};
    return seen();
  }
  StepResult<Seen> step(std::span<const float> push) {
    place[0] += 0.3 * push[0];
    return {.observation = seen(), .reward = compute_reward(place, goal)};
  }
  static double compute_reward(std::span<const double> achieved, std::span<const double> desired) {
    return std::abs(achieved[0] - desired[0]) < kNear ? 0 : -1;
  }
  [[nodiscard]] std::array<double, 2> save() const { return {place[0], goal[0]}; }
  Seen load(std::span<const std::byte> state) {
    std::memcpy(place.data(), state.data(), sizeof(double));
    std::memcpy(goal.data(), state.data() + sizeof(double), sizeof(double));
    return seen();
  }
  [[nodiscard]] Seen seen() const { return {{place[0] - kStart}, place, goal}; }

  Number place{}, goal{};
};

/// The same, but that its steps also cost what is pushed.
struct CostlyReach : Reach {
  static Spec spec() {
    Spec its = Reach::spec();
    its.id = "CostlyReach-v0";
    return its;
  }
  StepResult<Seen> step(std::span<const float> push) {
    StepResult<Seen> result = Reach::step(push);
    result.reward -= 0.01 * std::abs(push[0]);
    return result;
  }
};

}  // namespace tandem::rl::testing
