// rl/env/catch.h: Catch-v0, the smallest task that has to be solved from pixels.
//
// A ball falls from a random column of the top row, one row a step; a paddle of one cell in the bottom row moves left,
// stays or moves right. When the ball is down the episode ends with a reward of 1 if the paddle is below it, else -1;
// every other reward is 0. After I. Osband et al., "Behaviour Suite for Reinforcement Learning" (2020), the task of
// that name, which is V. Mnih et al.'s (2014), on a larger board and seen as an image.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tandem/rl/env/env_concepts.h"

namespace tandem::rl {

class Catch {
 public:
  static constexpr std::int64_t kSide = 12;          // rows and columns
  static constexpr std::int64_t kStart = kSide / 2;  // the paddle's first column
  static constexpr std::uint8_t kLit = 255;
  /// One channel; row after row from the top. The cells of ball and paddle are kLit, the others 0.
  using Image = std::array<std::uint8_t, static_cast<std::size_t>(kSide* kSide)>;

  static Spec spec();
  Image reset(NumpyGenerator& random);
  /// 0: left, 1: stay, 2: right; the edges stop it.
  StepResult<Image> step(std::int64_t action);

  [[nodiscard]] std::array<std::byte, 3 * sizeof(std::int64_t)> save() const;
  Image load(std::span<const std::byte> state);

 private:
  struct State {
    std::int64_t row = 0, column = 0;  // of the ball
    std::int64_t paddle = kStart;      // its column
  };
  [[nodiscard]] Image image() const;

  State state_;
};

}  // namespace tandem::rl
