// rl/env/native/catch.h: Catch-v0, the smallest task that has to be solved from pixels.
//
// A ball falls from a random column of the top row, one row a step; a paddle of one cell in the bottom row moves left,
// stays or moves right. When the ball is down the episode ends with a reward of 1 if the paddle is below it, else -1;
// every other reward is 0. The task is that of I. Osband et al., "Behaviour Suite for Reinforcement Learning" (2020),
// and before of V. Mnih et al. (2014), on a larger board and seen as an image.
//
// Threads: single-thread, as every environment.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "tandem/base/error.h"
#include "tandem/rl/env/env_concepts.h"
#include "tandem/rl/env/native/pictures.h"

namespace tandem::rl {

/// An environment as env_concepts.h describes it: one struct, one board.
class Catch {
 public:
  /// Rows and columns of the board, and the column in which the paddle starts.
  static constexpr std::int64_t kSide = 12;
  static constexpr std::int64_t kStart = kSide / 2;
  /// The value of a lit cell, which is white when uint8 is scaled to [0, 1].
  static constexpr std::uint8_t kLit = 255;
  /// One channel, row after row from the top. The cells of ball and paddle are kLit, the others 0.
  using Image = std::array<std::uint8_t, static_cast<std::size_t>(kSide* kSide)>;

  static Spec spec() {
    return {.id = "Catch-v0",
            .observation = {{.name = "image", .type = ElementType::kUInt8, .shape = {1, kSide, kSide}}},
            .action = Discrete{3},
            .reward_threshold = 0.95,
            .render_fps = 5};
  }
  /// One draw decides the ball's column; nothing else is random.
  Image reset(NumpyGenerator& random) {
    state_ = {.row = 0, .column = random.integers(0, kSide), .paddle = kStart};
    return image();
  }
  /// 0: left, 1: stay, 2: right; the edges stop the paddle. It moves first, so it can still catch the ball in the last
  /// step.
  StepResult<Image> step(std::int64_t action) {
    state_.paddle = std::clamp<std::int64_t>(state_.paddle + action - 1, 0, kSide - 1);
    ++state_.row;
    StepResult<Image> result{.observation = image()};
    result.terminated = state_.row == kSide - 1;
    if (result.terminated) result.reward = state_.paddle == state_.column ? 1 : -1;
    return result;
  }

  /// The board as it is, also in the last step, in which the ball is caught or lost.
  void render(Canvas& canvas) const { draw_catch(canvas, kSide, state_.row, state_.column, state_.paddle); }

  /// The state as bytes, and back. load() throws CheckpointError for a place that is not on the board.
  [[nodiscard]] std::array<std::byte, 3 * sizeof(std::int64_t)> save() const {
    return std::bit_cast<std::array<std::byte, sizeof(State)>>(state_);
  }
  Image load(std::span<const std::byte> state) {
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

 private:
  // The whole state, saved byte by byte: the ball's row and column, and the paddle's column.
  struct State {
    std::int64_t row = 0, column = 0;
    std::int64_t paddle = kStart;
  };
  [[nodiscard]] Image image() const {
    Image cells{};
    cells[static_cast<std::size_t>(state_.row * kSide + state_.column)] = kLit;
    cells[static_cast<std::size_t>((kSide - 1) * kSide + state_.paddle)] = kLit;
    return cells;
  }

  State state_;
};

}  // namespace tandem::rl
