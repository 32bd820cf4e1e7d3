#include "tandem/rl/env/native/catch.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {

Spec Catch::spec() {
  return {.id = "Catch-v0",
          .observation = {{.name = "image", .type = ElementType::kUInt8, .shape = {1, kSide, kSide}}},
          .action = Discrete{3},
          .reward_threshold = 0.95};
}

Catch::Image Catch::reset(NumpyGenerator& random) {
  state_ = {.row = 0, .column = random.integers(0, kSide), .paddle = kStart};
  return image();
}

// The paddle moves first, so it can still catch the ball in the last step.
StepResult<Catch::Image> Catch::step(std::int64_t action) {
  state_.paddle = std::clamp<std::int64_t>(state_.paddle + action - 1, 0, kSide - 1);
  ++state_.row;
  StepResult<Image> result{.observation = image()};
  result.terminated = state_.row == kSide - 1;
  if (result.terminated) result.reward = state_.paddle == state_.column ? 1 : -1;
  return result;
}

Catch::Image Catch::image() const {
  Image cells{};
  cells[static_cast<std::size_t>(state_.row * kSide + state_.column)] = kLit;
  cells[static_cast<std::size_t>((kSide - 1) * kSide + state_.paddle)] = kLit;
  return cells;
}

std::array<std::byte, 3 * sizeof(std::int64_t)> Catch::save() const {
  return std::bit_cast<std::array<std::byte, sizeof(State)>>(state_);
}

// Every number is compared with the board before the state is taken over, since image() uses them as indices.
Catch::Image Catch::load(std::span<const std::byte> state) {
  if (state.size() != sizeof(State))
    throw CheckpointError(concat("a state of ", state.size(), " bytes, expected ", sizeof(State)));
  State loaded;
  std::memcpy(&loaded, state.data(), sizeof(State));
  const auto within = [](std::int64_t at, std::int64_t end) { return at >= 0 && at < end; };
  if (!within(loaded.row, kSide - 1) || !within(loaded.column, kSide) || !within(loaded.paddle, kSide)) {
    throw CheckpointError(concat("a ball in row ", loaded.row, ", column ", loaded.column, " and a paddle in column ",
                                 loaded.paddle, " of a board of ", kSide, " x ", kSide));
  }
  state_ = loaded;
  return image();
}

}  // namespace tandem::rl
