// rl/env/native/catch.h: Catch-v0, the smallest task that has to be solved from pixels.
//
// A ball falls from a random column of the top row, one row a step; a paddle of one cell in the bottom row moves left,
// stays or moves right. When the ball is down the episode ends with a reward of 1 if the paddle is below it, else -1;
// every other reward is 0. The task is that of I. Osband et al., "Behaviour Suite for Reinforcement Learning" (2020),
// and before of V. Mnih et al. (2014), on a larger board and seen as an image.
//
// Threads: single-thread, as every environment.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tandem/rl/env/env_concepts.h"

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

  static Spec spec();
  /// One draw decides the ball's column; nothing else is random.
  Image reset(NumpyGenerator& random);
  /// 0: left, 1: stay, 2: right; the edges stop the paddle.
  StepResult<Image> step(std::int64_t action);

  /// The state as bytes, and back. load() throws CheckpointError for a place that is not on the board.
  [[nodiscard]] std::array<std::byte, 3 * sizeof(std::int64_t)> save() const;
  Image load(std::span<const std::byte> state);

 private:
  // The whole state, saved byte by byte: the ball's row and column, and the paddle's column.
  struct State {
    std::int64_t row = 0, column = 0;
    std::int64_t paddle = kStart;
  };
  // Draws the board anew from the state.
  [[nodiscard]] Image image() const;

  // The image is not saved, since it follows from the state.
  State state_;
};

}  // namespace tandem::rl
