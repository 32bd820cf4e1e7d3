#include "tandem/app/video/painter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"

namespace tandem::app {
namespace {

using rl::Canvas;
using ::testing::HasSubstr;
using Pixel = std::array<int, 3>;

Pixel pixel(const VideoFrame& frame, int x, int y) {
  const std::size_t at =
      3 * (static_cast<std::size_t>(y) * static_cast<std::size_t>(frame.width) + static_cast<std::size_t>(x));
  return {frame.rgb.at(at), frame.rgb.at(at + 1), frame.rgb.at(at + 2)};
}

constexpr Pixel kWhite{255, 255, 255}, kRed{255, 0, 0};
constexpr Canvas::Color kPureRed{1, 0, 0};

TEST(PainterTest, TheFirstPictureDecidesTheShapeOfAllFrames) {
  const auto size_of = [](double right, double top) {
    Canvas canvas;
    canvas.view(0, 0, right, top);
    canvas.disc({0, 0}, 1, kPureRed);
    const Painter painter(canvas, 600);
    return std::pair(painter.width(), painter.height());
  };
  EXPECT_EQ(size_of(2, 1), std::pair(600, 300 + 30));
  EXPECT_EQ(size_of(1, 3), std::pair(200, 600 + 30));
  EXPECT_EQ(size_of(100, 1), std::pair(600, 150 + 30));
  EXPECT_EQ(size_of(7, 2), std::pair(600, 172 + 30)) << "even";
}

TEST(PainterTest, YGrowsUpwardsAndOneScaleServesBothDirections) {
  Canvas canvas;
  canvas.view(0, 0, 2, 1);
  canvas.rectangle({0, 0.5}, {0.5, 1}, kPureRed);
  Painter painter(canvas, 200);
  const VideoFrame& frame = painter.paint(canvas, {});
  EXPECT_EQ(pixel(frame, 1, 1), kRed);
  EXPECT_EQ(pixel(frame, 49, 49), kRed);
  EXPECT_EQ(pixel(frame, 51, 1), kWhite);
  EXPECT_EQ(pixel(frame, 1, 51), kWhite);
  Canvas turned;
  turned.view(0, 1, 2, 0);
  turned.rectangle({0, 0.5}, {0.5, 1}, kPureRed);
  const VideoFrame& below = painter.paint(turned, {});
  EXPECT_EQ(pixel(below, 1, 1), kWhite);
  EXPECT_EQ(pixel(below, 1, 99), kRed);
}

TEST(PainterTest, AnotherViewIsFittedIntoTheMiddle) {
  Canvas wide, square;
  wide.view(0, 0, 2, 1);
  wide.disc({0, 0}, 0.1, kPureRed);
  square.view(0, 0, 1, 1);
  square.rectangle({0, 0}, {1, 1}, kPureRed);
  Painter painter(wide, 200);
  const VideoFrame& frame = painter.paint(square, {});
  EXPECT_EQ(pixel(frame, 48, 50), kWhite);
  EXPECT_EQ(pixel(frame, 51, 50), kRed);
  EXPECT_EQ(pixel(frame, 148, 50), kRed);
  EXPECT_EQ(pixel(frame, 151, 50), kWhite);
}

TEST(PainterTest, PixelsOfAnImageBecomeSharpSquaresOfAWholeNumberOfPixels) {
  const std::vector<std::uint8_t> rgb{255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 9, 9, 8, 8, 8, 7, 7, 7};
  Canvas canvas;
  canvas.image(rgb, 2, 3);
  Painter painter(canvas, 64);
  EXPECT_EQ(painter.width(), 64) << "21 times 3, made even";
  const VideoFrame& frame = painter.paint(canvas, {});
  EXPECT_EQ(pixel(frame, 10, 0), kRed);
  EXPECT_EQ(pixel(frame, 20, 20), kRed);
  EXPECT_EQ(pixel(frame, 23, 20), (Pixel{0, 255, 0}));
  EXPECT_EQ(pixel(frame, 62, 40), (Pixel{7, 7, 7}));
}

TEST(PainterTest, TheStripIsBelowThePictureAndDarkAtTheEnd) {
  Canvas canvas;
  canvas.view(0, 0, 1, 1);
  canvas.rectangle({-9, -9}, {9, 9}, kPureRed);
  Painter painter(canvas, 600);
  const int row = 600 + 4;
  EXPECT_EQ(pixel(painter.paint(canvas, {.left = "a", .right = "b"}), 300, row), (Pixel{232, 235, 240}));
  EXPECT_EQ(pixel(painter.paint(canvas, {.left = "a", .right = "b", .is_end = true}), 300, row), (Pixel{33, 38, 46}));
  EXPECT_EQ(pixel(painter.paint(canvas, {}), 300, 598), kRed);
}

TEST(PainterTest, ATextThatIsNoUtf8IsAnErrorThatSaysSo) {
  Canvas canvas;
  canvas.view(0, 0, 1, 1);
  canvas.text({0, 0}, "\xff\xfe");
  Painter painter(canvas, 64);
  try {
    (void)painter.paint(canvas, {});
    FAIL();
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), HasSubstr("UTF-8"));
  }
}

}  // namespace
}  // namespace tandem::app
