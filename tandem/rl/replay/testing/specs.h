// Specs of environments as tests of replay parts need them.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tandem/rl/env/spec.h"

namespace tandem::rl {

/// `count` numbers of a type, and two discrete actions.
[[nodiscard]] inline Spec plain_spec(std::int64_t count = 3, ElementType type = ElementType::kFloat32) {
  return {.id = "Plain-v0", .observation = {{.type = type, .shape = {count}}}, .action = Discrete{2}};
}

/// Leaves of all types, masks, and several choices.
[[nodiscard]] inline Spec mixed_spec() {
  return {.id = "Mixed-v0",
          .observation = {{.name = "small", .type = ElementType::kFloat32, .shape = {2, 2}},
                          {.name = "picture", .type = ElementType::kUInt8, .shape = {4, 3, 2}},
                          {.name = "word", .type = ElementType::kInt64, .shape = {}, .low = {0}, .high = {2}},
                          {.name = "clock", .type = ElementType::kFloat64, .shape = {5}}},
          .action = MultiDiscrete{{2, 3}},
          .has_action_mask = true};
}

/// HalfCheetah-v5's arrays.
[[nodiscard]] inline Spec cheetah_spec(ElementType type) {
  return {.id = "Cheetah-v0",
          .observation = {{.type = type, .shape = {17}}},
          .action = Box{std::vector<double>(6, -1), std::vector<double>(6, 1)},
          .max_episode_steps = 1000};
}

/// Four frames of 84 x 84, as Atari games are learned from.
[[nodiscard]] inline Spec atari_spec() {
  return {
      .id = "Atari-v0", .observation = {{.type = ElementType::kUInt8, .shape = {4, 84, 84}}}, .action = Discrete{6}};
}

/// A goal of `bits` bits, as float32.
[[nodiscard]] inline Spec goal_spec(std::int64_t bits = 2) {
  Spec spec{.id = "Goals-v0", .observation = {}, .action = Discrete{bits}};
  for (const char* name : {"achieved_goal", "desired_goal", "observation"})
    spec.observation.push_back({.name = name, .type = ElementType::kFloat32, .shape = {bits}});
  return spec;
}

}  // namespace tandem::rl
