// VisualCatch-v0, a plugin: Catch-v0 as four pictures of 84x84 pixels, the size of images that the Nature paper's
// network is for. bench/peers/visual_catch.py is the same task for Gymnasium.
#include <tandem/rl/env/plugin.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace {

constexpr std::int64_t kCells = 12, kScale = 7, kSide = kCells * kScale, kPictures = 4;
constexpr std::int64_t kPixels = kSide * kSide;

struct VisualCatch {
  // The latest picture last; those before the episode are black.
  using Pictures = std::array<std::uint8_t, kPictures * kPixels>;

  static tandem::rl::Spec spec() {
    return {.id = "VisualCatch-v0",
            .observation = {{.name = "pictures",
                             .type = tandem::rl::ElementType::kUInt8,
                             .shape = {kPictures, kSide, kSide}}},
            .action = tandem::rl::Discrete{3},
            .reward_threshold = 0.95};
  }

  Pictures reset(tandem::rl::NumpyGenerator& random) {
    pictures_.fill(0);
    row_ = 0;
    column_ = random.integers(0, kCells);
    paddle_ = kCells / 2;
    draw();
    return pictures_;
  }

  tandem::rl::StepResult<Pictures> step(std::int64_t action) {
    paddle_ = std::clamp<std::int64_t>(paddle_ + action - 1, 0, kCells - 1);
    ++row_;
    std::copy(pictures_.begin() + kPixels, pictures_.end(), pictures_.begin());
    draw();
    const bool is_down = row_ == kCells - 1;
    return {.observation = pictures_,
            .reward = !is_down             ? 0.0
                      : paddle_ == column_ ? 1.0
                                           : -1.0,
            .terminated = is_down};
  }

 private:
  void draw() {
    std::uint8_t* const picture = pictures_.data() + (kPictures - 1) * kPixels;
    std::fill_n(picture, kPixels, std::uint8_t{0});
    const auto light = [picture](std::int64_t row, std::int64_t column) {
      for (std::int64_t y = row * kScale; y < (row + 1) * kScale; ++y)
        std::fill_n(picture + y * kSide + column * kScale, kScale, std::uint8_t{255});
    };
    light(row_, column_);
    light(kCells - 1, paddle_);
  }

  Pictures pictures_;
  std::int64_t row_, column_, paddle_;
};

}  // namespace

TANDEM_ENV_PLUGIN(VisualCatch);
