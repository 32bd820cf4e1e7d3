// Environments of the test plugins.
#pragma once
#include <stdexcept>

#include "tandem/rl/env/plugin.h"

// Shows 0 or 1; guessing what comes next is worth 1. Ten guesses are an episode; guess 2 breaks it.
struct Coin {
  static tandem::rl::Spec spec() {
    return {.id = "Coin-v0",
            .observation = {{.name = "side", .shape = {1}}},
            .action = tandem::rl::Discrete{3},
            .max_episode_steps = 10};
  }
  std::array<float, 1> reset(tandem::rl::NumpyGenerator& random) {
    tossed = &random;
    return toss();
  }
  tandem::rl::StepResult<std::array<float, 1>> step(std::int64_t guess) {
    if (guess == 2) throw std::runtime_error("the coin fell off the table");
    const auto side = toss();
    return {side, side[0] == static_cast<float>(guess) ? 1.0 : 0.0};
  }
  std::array<float, 1> toss() { return {static_cast<float>(tossed->integers(0, 2))}; }

  tandem::rl::NumpyGenerator* tossed = nullptr;
};

struct Dice : Coin {
  static tandem::rl::Spec spec() {
    tandem::rl::Spec spec = Coin::spec();
    spec.id = "Dice-v0";
    return spec;
  }
};
