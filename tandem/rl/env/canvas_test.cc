#include "tandem/rl/env/canvas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "tandem/base/error.h"

namespace tandem::rl {
namespace {

using ::testing::HasSubstr;

std::string error_of(const std::function<void(Canvas&)>& draw) {
  Canvas canvas;
  canvas.view(0, 0, 1, 1);
  try {
    draw(canvas);
  } catch (const EnvError& error) {
    return error.what();
  }
  return "nothing";
}

TEST(CanvasTest, ShapesStandInTheFrameOfTheLastPlace) {
  Canvas canvas;
  canvas.view(-1, -1, 1, 1);
  canvas.line({{0, 0}, {1, 0}});
  canvas.place({2, 3}, std::numbers::pi / 2);
  canvas.line({{0, 0}, {1, 5}});
  canvas.place({});
  canvas.line({{0, 0}, {1, 0}});
  ASSERT_EQ(canvas.shapes().size(), 3u);
  const auto end = [&](std::size_t i) { return std::get<drawing::Lines>(canvas.shapes()[i]).points.at(1); };
  EXPECT_NEAR(end(1).x, 2 - 5, 1e-12);
  EXPECT_NEAR(end(1).y, 4, 1e-12);
  for (const std::size_t i : {0U, 2U}) {
    EXPECT_EQ(end(i).x, 1);
    EXPECT_EQ(end(i).y, 0);
  }
}

TEST(CanvasTest, AnImageIsCopiedAndIsSeenInItsOwnPixels) {
  std::vector<std::uint8_t> pixels(2 * 3 * 3, 7);
  Canvas canvas;
  canvas.image(pixels, 2, 3);
  pixels.assign(pixels.size(), 0);
  const auto& image = std::get<drawing::Image>(canvas.shapes().at(0));
  EXPECT_EQ(image.rgb, std::vector<std::uint8_t>(18, 7));
  EXPECT_EQ(canvas.shown().right, 3);
  EXPECT_EQ(canvas.shown().bottom, 2);
  EXPECT_EQ(canvas.shown().top, 0);
}

TEST(CanvasTest, WhatCannotBeDrawnIsRefusedWithItsNumbers) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(error_of([](Canvas& c) { c.line({{0, 0}, {kNan, 0}}); }), HasSubstr("x = nan"));
  EXPECT_THAT(error_of([](Canvas& c) { c.disc({0, 0}, -1, Canvas::kInk); }), HasSubstr("a radius = -1"));
  EXPECT_THAT(error_of([](Canvas& c) { c.text({0, 0}, "a", {.size = kNan}); }), HasSubstr("size = nan"));
  EXPECT_THAT(error_of([](Canvas& c) { c.line({}, {.width = -2}); }), HasSubstr("width = -2"));
  EXPECT_THAT(error_of([](Canvas& c) {
                c.polygon({}, {255, 0, 0});
              }),
              HasSubstr("a share of 255; shares go from 0 to 1"));
  EXPECT_THAT(error_of([](Canvas& c) { c.view(0, 1, 0, 2); }), HasSubstr("view(0, 1, 0, 2) is empty"));
  EXPECT_THAT(error_of([](Canvas& c) { c.place({0, 0}, kNan); }), HasSubstr("an angle of place()"));
  const std::vector<std::uint8_t> pixels(10);
  EXPECT_THAT(error_of([&](Canvas& c) { c.image(pixels, 2, 2); }), HasSubstr("with 10 bytes; red, green and blue"));
  EXPECT_THAT(error_of([&](Canvas& c) { c.image(pixels, 0, 2); }), HasSubstr("1 to 4096"));
  EXPECT_THAT(error_of([&](Canvas& c) { c.image(pixels, 5000, 2); }), HasSubstr("1 to 4096"));
}

TEST(CanvasTest, AShapeBeforeTheViewIsRefusedWithWhatToCall) {
  Canvas canvas;
  try {
    canvas.disc({0, 0}, 1, Canvas::kInk);
    FAIL();
  } catch (const EnvError& error) {
    EXPECT_THAT(error.what(), HasSubstr("canvas.view(left, bottom, right, top)"));
  }
}

TEST(CanvasTest, APictureHasABoundOfBytes) {
  EXPECT_THAT(error_of([](Canvas& canvas) {
                const std::vector<Canvas::Point> points(100'000);
                for (int i = 0; i < 50; ++i) canvas.line(points);
              }),
              HasSubstr("more than 64 MiB"));
}

TEST(CanvasTest, AnArrowWithoutLengthIsNotDrawn) {
  Canvas canvas;
  canvas.view(0, 0, 1, 1);
  canvas.arrow({0.5, 0.5}, {0.5, 0.5});
  EXPECT_TRUE(canvas.shapes().empty());
}

}  // namespace
}  // namespace tandem::rl
