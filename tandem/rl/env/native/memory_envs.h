// rl/env/native/memory_envs.h: native environments that cannot be solved without remembering what was seen before.
//
// MaskedCartPole-v1 and MaskedPendulum-v1 are CartPole-v1 and Pendulum-v1 without velocities in the observation: two
// looks are needed to see which way things move. RepeatPrevious-v0 asks for what was seen a fixed number of steps ago.
//
// Threads: single-thread, as every environment.
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/env_concepts.h"
#include "tandem/rl/env/env_group.h"
#include "tandem/rl/env/native/pictures.h"

namespace tandem::rl {

/// An env group that shows only some elements of what another one shows: hiding velocities, say, turns a task that can
/// be solved by looking once into one that needs memory. All else is the inner group's: actions, rewards, ends, seeds
/// and saved states.
///
/// Shows elements `shown` of the only leaf of `inner`, in that order, under the name `id`. Throws ConfigError when
/// `inner` has several leaves or a leaf that is not one list of float32, or has no such element. `inner` must not be
/// null.
[[nodiscard]] std::unique_ptr<EnvGroup> show_elements(std::unique_ptr<EnvGroup> inner, std::string id,
                                                      std::vector<std::size_t> shown);

/// MaskedCartPole-v1: shows cart position and pole angle. Throws ConfigError unless count >= 1.
[[nodiscard]] std::unique_ptr<EnvGroup> make_masked_cartpole(int count);
/// MaskedPendulum-v1: shows cosine and sine of the angle. Throws ConfigError unless count >= 1.
[[nodiscard]] std::unique_ptr<EnvGroup> make_masked_pendulum(int count);

/// Each step shows one of four cards; the action says which was shown kDelay steps before. Right answers earn, and
/// wrong ones cost, 1 / kAnswers; the first kDelay steps of an episode count for nothing. So a perfect memory has a
/// return of 1, and guessing -1/2 on average. The task is the one of this name in J. Morad et al., "POPGym:
/// Benchmarking Partially Observable Reinforcement Learning" (2023).
class RepeatPrevious {
 public:
  static constexpr std::int64_t kCards = 4;
  /// The answer is the card of kDelay steps before, so an episode has kDelay + kAnswers steps.
  static constexpr std::size_t kDelay = 4;
  static constexpr std::size_t kAnswers = 48;

  /// The card is shown as an int64, and the action is Discrete(kCards).
  static Spec spec() {
    return {.id = "RepeatPrevious-v0",
            .observation = {{.name = "card", .type = ElementType::kInt64, .low = {0}, .high = {kCards - 1}}},
            .action = Discrete{kCards},
            .reward_threshold = 0.9,
            .render_fps = 2};
  }
  std::int64_t reset(NumpyGenerator& random) {
    random_ = &random;
    state_.steps = 0;
    return show_next();
  }
  StepResult<std::int64_t> step(std::int64_t action) {
    // The answer is judged before the next card is shown, which may take the place of the oldest one.
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

  /// The last cards, of which the oldest one is asked for. Fewer are shown while an episode has had fewer, which
  /// leaves places empty at the left.
  void render(Canvas& canvas) const {
    std::vector<std::int64_t> cards;
    const auto now = static_cast<std::size_t>(state_.steps);
    for (std::size_t step = now < kDelay ? 0 : now - kDelay; step <= now; ++step)
      cards.push_back(state_.shown[step % state_.shown.size()]);
    draw_remembered(canvas, cards, kDelay + 1);
  }

  /// The state as bytes, and back. load() throws CheckpointError for a step beyond the episode.
  [[nodiscard]] std::array<std::byte, (kDelay + 2) * sizeof(std::int64_t)> save() const {
    return std::bit_cast<std::array<std::byte, sizeof(State)>>(state_);
  }
  std::int64_t load(std::span<const std::byte> state) {
    if (state.size() != sizeof(State))
      throw CheckpointError(concat("a state of ", state.size(), " bytes, expected ", sizeof(State)));
    std::memcpy(&state_, state.data(), sizeof(State));
    if (state_.steps < 0 || state_.steps >= static_cast<std::int64_t>(kDelay + kAnswers))
      throw CheckpointError(concat("step ", state_.steps, " of an episode of ", kDelay + kAnswers));
    return card_of(static_cast<std::size_t>(state_.steps));
  }

 private:
  // The whole state, saved byte by byte: the steps of the episode, and the last cards. The card of step t is entry
  // t % (kDelay + 1).
  struct State {
    std::int64_t steps = 0;
    std::array<std::int64_t, kDelay + 1> shown = {};
  };
  [[nodiscard]] std::int64_t& card_of(std::size_t step) { return state_.shown[step % state_.shown.size()]; }
  std::int64_t show_next() { return card_of(static_cast<std::size_t>(state_.steps)) = random_->integers(0, kCards); }

  // Belongs to the adapter, which hands it to reset() and keeps it at its place.
  NumpyGenerator* random_ = nullptr;
  State state_;
};

}  // namespace tandem::rl
