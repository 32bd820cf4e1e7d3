#include "tandem/app/video/palette.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

namespace tandem::app {
namespace {

using ::testing::UnorderedElementsAre;

const std::vector<std::uint8_t> kThree{255, 255, 255, 1, 2, 3, 1, 2, 3, 200, 0, 7};

TEST(PaletteTest, FewColoursAreKeptExactly) {
  Palette palette;
  palette.count(kThree);
  palette.choose();
  EXPECT_THAT(palette.colors(), UnorderedElementsAre(Rgb{255, 255, 255}, Rgb{1, 2, 3}, Rgb{200, 0, 7}));
  for (const Rgb& color : palette.colors())
    EXPECT_EQ(palette.colors()[palette.index_of(color[0], color[1], color[2])], color);
}

TEST(PaletteTest, ManyColoursBecomeNearOnesAndWhiteStaysWhite) {
  std::vector<std::uint8_t> rgb;
  for (int i = 0; i < 200'000; ++i) rgb.insert(rgb.end(), {255, 255, 255});
  for (int red = 0; red < 256; red += 2) {
    for (int green = 0; green < 256; green += 2)
      rgb.insert(rgb.end(), {static_cast<std::uint8_t>(red), static_cast<std::uint8_t>(green), 40});
  }
  Palette palette;
  palette.count(rgb);
  palette.choose();
  EXPECT_EQ(palette.colors().size(), Palette::kMost);
  double squares = 0;
  for (std::size_t i = 0; i < rgb.size(); i += 3) {
    const Rgb& color = palette.colors()[palette.index_of(rgb[i], rgb[i + 1], rgb[i + 2])];
    for (std::size_t c = 0; c < 3; ++c) squares += std::pow(int{rgb[i + c]} - int{color[c]}, 2);
    if (i == 0) {
      EXPECT_EQ(color, (Rgb{255, 255, 255}));
    }
  }
  // A plane of 256 x 256 in 254 squares of 16: each side is off by at most 8, and by 16 / sqrt(12) on average.
  const double planar = static_cast<double>(rgb.size() / 3 - 200'000);
  EXPECT_LT(std::sqrt(squares / planar), 8);
}

TEST(PaletteTest, ThereAreNoMoreColoursThanAskedFor) {
  Palette palette;
  palette.count(kThree);
  palette.choose(2);
  EXPECT_EQ(palette.colors().size(), 2u);
}

}  // namespace
}  // namespace tandem::app
