// Environments that break in every way that a struct can: each in its own call, most of them after some good steps.
#include <chrono>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tandem/rl/env/plugin.h"

namespace {

using tandem::rl::NumpyGenerator;
using tandem::rl::StepResult;
using Observation = std::vector<float>;

// A clock that shows the step; its episodes have 10 steps. Two environments that make 8 steps an update get over the
// first three updates before `kGoodSteps` are done.
constexpr int kGoodSteps = 25;

struct Clock {
  static tandem::rl::Spec spec_named(const char* id) {
    return {.id = id,
            .observation = {{.name = "hand", .shape = {2}}},
            .action = tandem::rl::Discrete{2},
            .max_episode_steps = 10};
  }
  Observation reset(NumpyGenerator& random) { return {static_cast<float>(random.uniform(0, 1)), 0.0F}; }
  StepResult<Observation> step(std::int64_t) {
    ++steps;
    return {{0.0F, static_cast<float>(steps % 10)}, 1.0};
  }
  [[nodiscard]] bool is_late() const { return steps > kGoodSteps; }

  int steps = 0;
};

struct Good : Clock {
  static tandem::rl::Spec spec() { return spec_named("Good-v0"); }
};

struct ThrowsInReset : Clock {
  static tandem::rl::Spec spec() { return spec_named("ThrowsInReset-v0"); }
  Observation reset(NumpyGenerator&) { throw std::runtime_error("no licence for the simulator"); }
};

struct ThrowsInStep : Clock {
  static tandem::rl::Spec spec() { return spec_named("ThrowsInStep-v0"); }
  StepResult<Observation> step(std::int64_t action) {
    StepResult<Observation> result = Clock::step(action);
    if (is_late()) throw std::runtime_error("the simulator lost its window");
    return result;
  }
};

struct ThrowsAnInt : Clock {
  static tandem::rl::Spec spec() { return spec_named("ThrowsAnInt-v0"); }
  StepResult<Observation> step(std::int64_t) { throw 7; }
};

struct Hangs : Clock {
  static tandem::rl::Spec spec() { return spec_named("Hangs-v0"); }
  StepResult<Observation> step(std::int64_t action) {
    while (is_late()) std::this_thread::sleep_for(std::chrono::hours(1));
    return Clock::step(action);
  }
};

struct NanObservation : Clock {
  static tandem::rl::Spec spec() { return spec_named("NanObservation-v0"); }
  StepResult<Observation> step(std::int64_t action) {
    StepResult<Observation> result = Clock::step(action);
    if (is_late()) result.observation[1] = std::numeric_limits<float>::quiet_NaN();
    return result;
  }
};

struct InfiniteObservation : Clock {
  static tandem::rl::Spec spec() { return spec_named("InfiniteObservation-v0"); }
  Observation reset(NumpyGenerator&) { return {std::numeric_limits<float>::infinity(), 0.0F}; }
};

struct NanReward : Clock {
  static tandem::rl::Spec spec() { return spec_named("NanReward-v0"); }
  StepResult<Observation> step(std::int64_t action) {
    StepResult<Observation> result = Clock::step(action);
    if (is_late()) result.reward = std::numeric_limits<double>::quiet_NaN();
    return result;
  }
};

struct ShortObservation : Clock {
  static tandem::rl::Spec spec() { return spec_named("ShortObservation-v0"); }
  StepResult<Observation> step(std::int64_t action) {
    StepResult<Observation> result = Clock::step(action);
    if (is_late()) result.observation.pop_back();
    return result;
  }
};

struct ThrowsInSave : Clock {
  static tandem::rl::Spec spec() { return spec_named("ThrowsInSave-v0"); }
  [[nodiscard]] std::string save() const {
    if (is_late()) throw std::runtime_error("the simulator cannot be frozen now");
    return std::to_string(steps);
  }
  Observation load(std::span<const std::byte>) { return {0.0F, 0.0F}; }
};

struct ThrowsInLoad : Clock {
  static tandem::rl::Spec spec() { return spec_named("ThrowsInLoad-v0"); }
  [[nodiscard]] std::string save() const { return std::to_string(steps); }
  Observation load(std::span<const std::byte>) { throw std::runtime_error("bytes of another simulator"); }
};

}  // namespace

TANDEM_ENV_PLUGIN(Good, ThrowsInReset, ThrowsInStep, ThrowsAnInt, Hangs, NanObservation, InfiniteObservation, NanReward,
                  ShortObservation, ThrowsInSave, ThrowsInLoad);
