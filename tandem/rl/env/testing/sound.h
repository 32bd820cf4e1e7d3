// rl/env/testing/sound.h: an environment without fault, from which tests of check_env() make faulty ones.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>

#include "tandem/rl/env/check/env_check.h"

namespace tandem::rl::testing {

// A point on a line, pushed by two numbers, that shall stay near 0. It ends at +-2, and is without fault.
struct Sound {
  using Observation = std::array<float, 2>;
  static Spec spec() {
    return {.id = "Sound-v0",
            .observation = {{.shape = {2}, .low = {-3, -3}, .high = {3, 3}}},
            .action = Box{.low = {-1, -1}, .high = {1, 1}},
            .max_episode_steps = 50};
  }
  Observation reset(NumpyGenerator& random) {
    place = random.uniform(-1, 1);
    speed = random.uniform(-0.1, 0.1);
    return shown();
  }
  StepResult<Observation> step(std::span<const float> push) {
    speed = std::clamp(speed + 0.1 * push[0] + 0.05 * push[1], -1.0, 1.0);
    place += 0.2 * speed;
    return {.observation = shown(), .reward = 1 - std::abs(place), .terminated = std::abs(place) > 2};
  }
  [[nodiscard]] std::array<double, 2> save() const { return {place, speed}; }
  Observation load(std::span<const std::byte> state) {
    std::array<double, 2> both{};
    std::memcpy(both.data(), state.data(), sizeof both);
    std::tie(place, speed) = std::tuple(both[0], both[1]);
    return shown();
  }
  [[nodiscard]] Observation shown() const { return {static_cast<float>(place), static_cast<float>(speed)}; }
  double place = 0, speed = 0;
};

template <typename Env>
EnvCheck check() {
  EnvRegistry environments;
  environments.add<Env>();
  return check_env(environments, Env::spec().id, {});
}

inline std::string kinds(const EnvCheck& check, Weight weight) {
  std::string text;
  for (const Finding& finding : check.findings) {
    if (finding.weight == weight) text += (text.empty() ? "" : " ") + finding.kind;
  }
  return text;
}

inline std::string texts(const EnvCheck& check) {
  std::string text;
  for (const Finding& finding : check.findings) text += finding.kind + ": " + finding.text + "\n";
  return text;
}

}  // namespace tandem::rl::testing

// A check of `Env` finds just this of that weight, and no fault beside a finding of less.
#define EXPECT_FOUND(Env, weight, kind)                                                                  \
  do {                                                                                                   \
    const EnvCheck found = ::tandem::rl::testing::check<Env>();                                          \
    EXPECT_EQ(::tandem::rl::testing::kinds(found, weight), kind) << ::tandem::rl::testing::texts(found); \
    if ((weight) != Weight::kFault) {                                                                    \
      EXPECT_FALSE(found.has(Weight::kFault)) << ::tandem::rl::testing::texts(found);                    \
    }                                                                                                    \
  } while (false)
