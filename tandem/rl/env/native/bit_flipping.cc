#include "tandem/rl/env/native/bit_flipping.h"

#include <cstring>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/native/pictures.h"

namespace tandem::rl {

// The number of bits is in the spec, which a run reads once.
void BitFlipping::configure(const Options& options) {
  if (!now_.empty() && now_.size() != static_cast<std::size_t>(options.bits))
    throw ConfigError("bits cannot change between episodes");
  now_.resize(static_cast<std::size_t>(options.bits));
  goal_.resize(now_.size());
}

Spec BitFlipping::spec() const {
  const auto bits = static_cast<std::int64_t>(now_.size());
  Spec spec{.id = "BitFlipping-v0", .action = Discrete{bits}, .max_episode_steps = static_cast<int>(bits)};
  for (const char* name : {"observation", "achieved_goal", "desired_goal"})
    spec.observation.push_back(
        {.name = name, .shape = {bits}, .low = std::vector(now_.size(), 0.0), .high = std::vector(now_.size(), 1.0)});
  spec.render_fps = 3;
  return spec;
}

// Bits and goal are drawn apart, so that one episode in 2^bits begins at its goal, as in the paper.
BitFlipping::Seen BitFlipping::reset(NumpyGenerator& random) {
  for (std::vector<float>* bits : {&now_, &goal_})
    std::ranges::generate(*bits, [&random] { return static_cast<float>(random.integers(0, 2)); });
  return seen();
}

StepResult<BitFlipping::Seen> BitFlipping::step(std::int64_t action) {
  float& bit = now_[static_cast<std::size_t>(action)];
  bit = 1 - bit;
  return {.observation = seen(), .reward = compute_reward(now_, goal_), .terminated = is_solved()};
}

double BitFlipping::compute_reward(std::span<const float> achieved, std::span<const float> desired) {
  return std::ranges::equal(achieved, desired) ? 0 : -1;
}

void BitFlipping::render(Canvas& canvas) const { draw_bits(canvas, goal_, now_); }

std::vector<float> BitFlipping::save() const {
  std::vector<float> both = now_;
  both.insert(both.end(), goal_.begin(), goal_.end());
  return both;
}

// A state comes from a file, so each of its numbers is looked at before any is taken over.
BitFlipping::Seen BitFlipping::load(std::span<const std::byte> state) {
  if (state.size() != 2 * now_.size() * sizeof(float))
    throw CheckpointError(concat("a state of ", state.size(), " bytes of ", now_.size(), " bits"));
  std::vector<float> both(2 * now_.size());
  std::memcpy(both.data(), state.data(), state.size());
  for (const float bit : both) {
    if (bit != 0 && bit != 1) throw CheckpointError(concat("a bit is ", bit));
  }
  now_.assign(both.begin(), both.begin() + std::ssize(now_));
  goal_.assign(both.begin() + std::ssize(now_), both.end());
  return seen();
}

}  // namespace tandem::rl
