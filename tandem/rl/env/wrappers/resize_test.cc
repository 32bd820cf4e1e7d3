#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/rl/env/testing/tally.h"

namespace tandem::rl {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using testing::Pictures;
using testing::refusal_of;
using testing::Wrapped;

// Shows element i as 37 i modulo 251.
template <std::int64_t kHeight, std::int64_t kWidth>
struct Ramp {
  using Pixels = std::array<std::uint8_t, static_cast<std::size_t>(kHeight* kWidth)>;
  static Spec spec() {
    return {.id = "Ramp-v0",
            .observation = {{.type = ElementType::kUInt8, .shape = {kHeight, kWidth}}},
            .action = Discrete{1}};
  }
  static Pixels shown() {
    Pixels pixels;
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 37 % 251);
    return pixels;
  }
  Pixels reset(NumpyGenerator& /*random*/) { return shown(); }
  StepResult<Pixels> step(std::int64_t /*action*/) { return {shown()}; }
};

template <std::int64_t kHeight, std::int64_t kWidth>
std::vector<std::uint8_t> resized(const std::string& size) {
  return Wrapped<Ramp<kHeight, kWidth>>({"resize=" + size}).template seen<std::uint8_t>();
}

// The numbers are those of cv2 5.0.0: cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA).
TEST(ResizeTest, PixelsAreThoseOfOpenCv) {
  EXPECT_THAT((resized<5, 7>("3x4")), ElementsAre(19, 82, 146, 209, 32, 95, 159, 222, 45, 108, 172, 149));
  EXPECT_THAT((resized<5, 7>("2x3")), ElementsAre(33, 117, 202, 52, 137, 178));
  EXPECT_THAT((resized<5, 7>("1")), ElementsAre(120));
  EXPECT_THAT((resized<5, 7>("5")), ElementsAre(11, 58, 111, 164, 211, 19, 66, 119, 172, 219, 27, 74, 127, 180, 227, 35,
                                                82, 135, 188, 235, 43, 90, 143, 196, 64));
}

TEST(ResizeTest, SidesThatBecomeShorterByWholeFactorsAreRoundedAsOpenCvDoes) {
  EXPECT_THAT((resized<6, 8>("3x4")), ElementsAre(41, 115, 189, 75, 131, 205, 91, 102, 158, 44, 118, 192));
  EXPECT_THAT((resized<6, 8>("2")), ElementsAre(100, 123, 131, 132));
  EXPECT_THAT((resized<6, 8>("2x8")),
              ElementsAre(45, 82, 119, 156, 193, 146, 100, 53, 180, 133, 87, 124, 77, 114, 151, 188));
}

TEST(ResizeTest, AnImageOfItsSizeStaysAsItIs) {
  EXPECT_THAT((resized<5, 7>("5x7")), ElementsAreArray((Ramp<5, 7>::shown())));
}

// Both layouts have planes of one colour each.
TEST(ResizeTest, EveryColourIsResizedByItself) {
  Wrapped<Pictures> last({"resize=4x3"}), first({"channels_first", "resize=4x3", "channels_last"});
  EXPECT_THAT(last.group().spec().observation[0].shape, ElementsAre(4, 3, 3));
  EXPECT_EQ(last.seen<std::uint8_t>(), first.seen<std::uint8_t>());
}

TEST(ResizeTest, ImagesDoNotBecomeLarger) {
  EXPECT_THAT(refusal_of<Pictures>({"resize=6x5"}), HasSubstr("6x5 is larger"));
  EXPECT_THAT(refusal_of<Pictures>({"resize=0"}), HasSubstr("from 1 to 4096"));
  EXPECT_THAT(refusal_of<Pictures>({"resize=3x"}), HasSubstr("HEIGHTxWIDTH"));
}

}  // namespace
}  // namespace tandem::rl
