#include "tandem/rl/env/native/memory_envs.h"

#include <bit>
#include <cstring>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/native/classic_group.h"
#include "tandem/rl/env/shown_elements.h"

namespace tandem::rl {

std::unique_ptr<EnvGroup> make_masked_cartpole(int count) {
  return std::make_unique<ShownElements>(make_cartpole(count), "MaskedCartPole-v1", std::vector<std::size_t>{0, 2});
}

std::unique_ptr<EnvGroup> make_masked_pendulum(int count) {
  return std::make_unique<ShownElements>(make_pendulum(count), "MaskedPendulum-v1", std::vector<std::size_t>{0, 1});
}

Spec RepeatPrevious::spec() {
  return {.id = "RepeatPrevious-v0",
          .observation = {{.name = "card", .type = ElementType::kInt64, .low = {0}, .high = {kCards - 1}}},
          .action = Discrete{kCards},
          .reward_threshold = 0.9};
}

std::int64_t RepeatPrevious::reset(NumpyGenerator& random) {
  random_ = &random;
  state_.steps = 0;
  return show_next();
}

StepResult<std::int64_t> RepeatPrevious::step(std::int64_t action) {
  const auto now = static_cast<std::size_t>(state_.steps);
  StepResult<std::int64_t> result{.observation = 0};
  if (now >= kDelay) {
    const double worth = 1.0 / static_cast<double>(kAnswers);
    result.reward = action == card_of(now - kDelay) ? worth : -worth;
  }
  ++state_.steps;
  result.terminated = now + 1 == kDelay + kAnswers;
  result.observation = show_next();
  return result;
}

std::int64_t RepeatPrevious::show_next() {
  return card_of(static_cast<std::size_t>(state_.steps)) = random_->integers(0, kCards);
}

std::array<std::byte, (RepeatPrevious::kDelay + 2) * sizeof(std::int64_t)> RepeatPrevious::save() const {
  return std::bit_cast<std::array<std::byte, sizeof(State)>>(state_);
}

std::int64_t RepeatPrevious::load(std::span<const std::byte> state) {
  if (state.size() != sizeof(State))
    throw CheckpointError(concat("a state of ", state.size(), " bytes, expected ", sizeof(State)));
  std::memcpy(&state_, state.data(), sizeof(State));
  if (state_.steps < 0 || state_.steps >= static_cast<std::int64_t>(kDelay + kAnswers))
    throw CheckpointError(concat("step ", state_.steps, " of an episode of ", kDelay + kAnswers));
  return card_of(static_cast<std::size_t>(state_.steps));
}

}  // namespace tandem::rl
