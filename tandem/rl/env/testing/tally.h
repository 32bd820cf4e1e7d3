// Environments that show what was done to them, for tests of what is put around environments; and the steps of them.
#pragma once
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "tandem/rl/env/env_adapter.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/wrappers/wrapper_list.h"

namespace tandem::rl::testing {

/// Shows the number of its episode, its steps and the last action. A reward is 10 * steps + action, its negative for
/// action 3. Action 4 ends the episode; so do `length` steps.
struct Tally {
  using Observation = std::array<float, 3>;
  static constexpr int kLength = 7;
  static Spec spec() {
    return {.id = "Tally-v0",
            .observation = {{.shape = {3}, .low = {0, 0, -1}, .high = {1000, kLength, 4}}},
            .action = Discrete{5},
            .max_episode_steps = 100,
            .reward_threshold = 50};
  }
  static MetricsOf<Tally> metrics() {
    return {
        {"steps", [](const Tally& its) { return static_cast<double>(its.state.steps); }, "Steps.", Over::kEpisodes}};
  }
  Observation reset(NumpyGenerator& random) {
    (void)random.next_uint64();  // so that generators show whether they went on
    state = {.episode = state.episode + 1};
    state.draw = random.integers(0, 1000);
    return shown();
  }
  StepResult<Observation> step(std::int64_t action) {
    ++state.steps;
    state.action = action;
    const double reward = static_cast<double>(10 * state.steps + action);
    return {shown(), action == 3 ? -reward : reward, action == 4 || state.steps >= kLength};
  }
  struct State {
    std::int64_t episode = -1, steps = 0, action = -1, draw = 0;
  };
  [[nodiscard]] std::array<State, 1> save() const { return {state}; }
  Observation load(std::span<const std::byte> bytes) {
    std::memcpy(&state, bytes.data(), sizeof state);
    return shown();
  }
  [[nodiscard]] Observation shown() const {
    return {static_cast<float>(state.episode), static_cast<float>(state.steps), static_cast<float>(state.action)};
  }
  State state;
};

/// A picture of three colours, a pose within bounds and a choice; its actions are masked, and it ends after five steps.
struct Pictures {
  static constexpr std::int64_t kHeight = 6, kWidth = 4, kOptions = 3;
  using Pixels = std::array<std::uint8_t, static_cast<std::size_t>(kHeight* kWidth * 3)>;
  using Observation = std::tuple<Pixels, std::array<float, 2>, std::int64_t>;
  static Spec spec() {
    return {.id = "Pictures-v0",
            .observation = {{.name = "pixels", .type = ElementType::kUInt8, .shape = {kHeight, kWidth, 3}},
                            {.name = "pose", .shape = {2}, .low = {-2, 0}, .high = {2, 10}},
                            {.name = "mode", .type = ElementType::kInt64, .low = {1}, .high = {3}}},
            .action = Discrete{kOptions},
            .has_action_mask = true};
  }
  Observation reset(NumpyGenerator& random) {
    steps = 0;
    draw = random.integers(0, 200);
    return shown();
  }
  StepResult<Observation> step(std::int64_t action) {
    ++steps;
    return {shown(), static_cast<double>(action), steps == 5};
  }
  void action_mask(std::span<std::uint8_t> allowed) const {
    for (std::size_t i = 0; i < allowed.size(); ++i)
      allowed[i] = static_cast<std::int64_t>(i) != (steps + draw) % kOptions;
  }
  [[nodiscard]] std::array<std::int64_t, 2> save() const { return {steps, draw}; }
  Observation load(std::span<const std::byte> bytes) {
    std::array<std::int64_t, 2> both{};
    std::memcpy(both.data(), bytes.data(), sizeof both);
    std::tie(steps, draw) = std::tuple(both[0], both[1]);
    return shown();
  }
  [[nodiscard]] Observation shown() const {
    Pixels pixels;
    for (std::size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = static_cast<std::uint8_t>(i * 7 + static_cast<std::size_t>(draw + 31 * steps));
    return {pixels, {static_cast<float>(steps) - 2, static_cast<float>(draw) / 20}, 1 + (draw + steps) % 3};
  }
  std::int64_t steps = 0, draw = 0;
};

/// A group of `Env` with wrappers around, and what it wrote last.
template <typename Env>
class Wrapped {
 public:
  explicit Wrapped(const std::vector<std::string>& texts, int count = 1)
      : group_(WrapperChain(EnvGroupOf<Env>(1).spec(), texts)
                   .make([](int its) { return std::make_unique<EnvGroupOf<Env>>(its); }, count)),
        buffers_(*group_) {
    for (int e = 0; e < count; ++e) seeds_.push_back(5 + static_cast<std::uint64_t>(e));
    reset();
  }

  void reset() { group_->reset(seeds_, buffers_.arrays()); }
  /// The same action in each environment, or one an environment.
  void step(std::int64_t action) { step(std::vector(buffers_.rows(), action)); }
  void step(const std::vector<std::int64_t>& actions) { group_->step({.discrete = actions.data()}, buffers_.arrays()); }
  void step_box(const std::vector<float>& actions) { group_->step({.box = actions.data()}, buffers_.arrays()); }

  [[nodiscard]] EnvGroup& group() { return *group_; }
  [[nodiscard]] const EnvBuffers& buffers() const { return buffers_; }
  template <typename Element = float>
  [[nodiscard]] std::vector<Element> seen(std::size_t env = 0, std::size_t leaf = 0) const {
    const auto row = buffers_.template observation<Element>(env, leaf);
    return {row.begin(), row.end()};
  }
  template <typename Element = float>
  [[nodiscard]] std::vector<Element> last_seen(std::size_t env = 0, std::size_t leaf = 0) const {
    const auto row = buffers_.template final_observation<Element>(env, leaf);
    return {row.begin(), row.end()};
  }
  [[nodiscard]] double reward(std::size_t env = 0) const { return buffers_.reward()[env]; }
  [[nodiscard]] bool terminated(std::size_t env = 0) const { return buffers_.terminated()[env] != 0; }
  [[nodiscard]] bool truncated(std::size_t env = 0) const { return buffers_.truncated()[env] != 0; }

 private:
  std::unique_ptr<EnvGroup> group_;
  EnvBuffers buffers_;
  std::vector<std::uint64_t> seeds_;
};

/// What a ConfigError of the chain says; "" where there is none.
template <typename Env>
std::string refusal_of(const std::vector<std::string>& texts) {
  try {
    (void)WrapperChain(EnvGroupOf<Env>(1).spec(), texts);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace tandem::rl::testing
