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
using testing::Tally;
using testing::Wrapped;

TEST(FlattenTest, LaysLeavesBehindEachOtherAndShowsChoicesOneHot) {
  struct Small {
    static Spec spec() {
      return {.id = "Small-v0",
              .observation = {{.name = "a", .type = ElementType::kUInt8, .shape = {2}},
                              {.name = "b", .type = ElementType::kInt64, .shape = {2}, .low = {1, 0}, .high = {3, 1}},
                              {.name = "c", .shape = {1}}},
              .action = Discrete{1}};
    }
    using Shown = std::tuple<std::array<std::uint8_t, 2>, std::array<std::int64_t, 2>, std::array<float, 1>>;
    Shown reset(NumpyGenerator& /*random*/) { return {{7, 255}, {2, 1}, {-0.5F}}; }
    StepResult<Shown> step(std::int64_t /*action*/) { return {{{8, 9}, {3, 0}, {4}}, 0, true}; }
  };
  Wrapped<Small> small({"flatten"});
  const Leaf& leaf = small.group().spec().observation.front();
  EXPECT_EQ(small.group().spec().observation.size(), 1U);
  EXPECT_EQ(describe(leaf), "obs float32[8]");
  EXPECT_EQ(leaf.high[1], 255);
  EXPECT_EQ(leaf.high[2], 1);
  EXPECT_TRUE(std::isinf(leaf.high[7]));
  EXPECT_THAT(small.seen(), ElementsAre(7, 255, 0, 1, 0, 0, 1, -0.5F));
  small.step(0);
  EXPECT_THAT(small.last_seen(), ElementsAre(8, 9, 0, 0, 1, 1, 0, 4));
  EXPECT_THAT(small.seen(), ElementsAre(7, 255, 0, 1, 0, 0, 1, -0.5F));
}

// A time whose steps float32 does not hold.
struct Clock64 {
  static constexpr double kBegin = 1.7e9;
  static Spec spec() {
    return {.id = "Clock64-v0",
            .observation = {{.name = "time", .type = ElementType::kFloat64, .low = {kBegin}, .high = {kBegin + 1}},
                            {.name = "mode", .type = ElementType::kInt64, .low = {0}, .high = {1}}},
            .action = Discrete{1}};
  }
  using Shown = std::tuple<double, std::int64_t>;
  Shown reset(NumpyGenerator& /*random*/) { return {kBegin, 0}; }
  StepResult<Shown> step(std::int64_t /*action*/) { return {{kBegin + 0.25, 1}}; }
};

TEST(FlattenTest, ALeafOfFloat64KeepsItsValues) {
  Wrapped<Clock64> clock({"flatten"});
  EXPECT_EQ(describe(clock.group().spec().observation.front()), "obs float64[3]");
  clock.step(0);
  EXPECT_THAT(clock.seen<double>(), ElementsAre(Clock64::kBegin + 0.25, 0, 1));
}

TEST(RescaleObservationTest, ALeafOfFloat64IsRescaledBeforeItIsRounded) {
  Wrapped<Clock64> clock({"rescale_observation"});
  EXPECT_EQ(clock.group().spec().observation.front().type, ElementType::kFloat32);
  clock.step(0);
  EXPECT_THAT(clock.seen(), ElementsAre(-0.5F));
}

TEST(FlattenTest, AChoiceWithoutBoundsIsRefused) {
  struct Open {
    static Spec spec() {
      return {.id = "Open-v0", .observation = {{.type = ElementType::kInt64}}, .action = Discrete{1}};
    }
    std::int64_t reset(NumpyGenerator& /*random*/) { return 0; }
    StepResult<std::int64_t> step(std::int64_t /*action*/) { return {}; }
  };
  EXPECT_THAT(refusal_of<Open>({"flatten"}), HasSubstr("int64 without bounds"));
}

TEST(RescaleObservationTest, BringsElementsFromTheirBoundsToTheRange) {
  Wrapped<Tally> tally({"rescale_observation"}), unit({"rescale_observation=0..1"});
  tally.step(4), unit.step(3);
  EXPECT_THAT(unit.seen()[2], 0.8F);
  EXPECT_EQ(unit.group().spec().observation.front().high, (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(tally.last_seen()[2], 1);
  EXPECT_EQ(tally.last_seen()[0], -1);
  EXPECT_FLOAT_EQ(tally.last_seen()[1], 2.0F / 7 - 1);
}

TEST(RescaleObservationTest, WhatIsFarBeyondItsBoundsIsAFault) {
  struct Narrow {
    static Spec spec() {
      return {.id = "Narrow-v0", .observation = {{.low = {0}, .high = {1e-30}}}, .action = Discrete{1}};
    }
    float reset(NumpyGenerator& /*random*/) { return 0; }
    StepResult<float> step(std::int64_t /*action*/) { return {1e10F}; }
  };
  Wrapped<Narrow> narrow({"rescale_observation"});
  EXPECT_EQ(narrow.seen()[0], -1);
  EXPECT_THROW(narrow.step(0), EnvError);
}

TEST(RescaleObservationTest, PixelsBecomeFloatsAndChoicesStay) {
  Wrapped<Pictures> scaled({"rescale_observation=0..1"}), plain({});
  EXPECT_EQ(scaled.group().spec().observation[0].type, ElementType::kFloat32);
  EXPECT_EQ(scaled.group().spec().observation[2].type, ElementType::kInt64);
  scaled.step(0), plain.step(0);
  EXPECT_EQ(scaled.seen<std::int64_t>(0, 2), plain.seen<std::int64_t>(0, 2));
  const auto pixels = plain.seen<std::uint8_t>();
  for (std::size_t i = 0; i < pixels.size(); ++i)
    EXPECT_FLOAT_EQ(scaled.seen()[i], static_cast<float>(pixels[i]) / 255);
}

TEST(RescaleObservationTest, LeavesWithoutBoundsAreNamed) {
  struct Open {
    static Spec spec() {
      return {.id = "Open-v0",
              .observation = {{.shape = {2}, .low = {0, 0}, .high = {1, std::numeric_limits<double>::infinity()}}},
              .action = Discrete{1}};
    }
    std::array<float, 2> reset(NumpyGenerator& /*random*/) { return {}; }
    StepResult<std::array<float, 2>> step(std::int64_t /*action*/) { return {}; }
  };
  EXPECT_THAT(refusal_of<Open>({"rescale_observation"}), HasSubstr("leaf 'obs' has bounds 0 .. inf in element 1"));
  EXPECT_THAT(refusal_of<Pictures>({"rescale_observation@mode"}), HasSubstr("its elements are choices"));
}

TEST(ChannelsTest, MoveToTheFrontAndBack) {
  Wrapped<Pictures> first({"channels_first"}), back({"channels_first", "channels_last"}), plain({});
  EXPECT_THAT(first.group().spec().observation[0].shape, ElementsAre(3, 6, 4));
  EXPECT_THAT(back.group().spec().observation[0].shape, ElementsAre(6, 4, 3));
  first.step(0), back.step(0), plain.step(0);
  const auto pixels = plain.seen<std::uint8_t>(), moved = first.seen<std::uint8_t>();
  EXPECT_EQ(back.seen<std::uint8_t>(), pixels);
  for (std::size_t pixel = 0; pixel < 24; ++pixel) {
    for (std::size_t colour = 0; colour < 3; ++colour)
      EXPECT_EQ(moved[colour * 24 + pixel], pixels[pixel * 3 + colour]);
  }
}

TEST(ChannelsTest, BoundsMoveWithTheirElements) {
  const Spec spec{.id = "Bounds-v0",
                  .observation = {{.shape = {1, 2, 2}, .low = {0, 0, 0, 0}, .high = {1, 2, 3, 4}}},
                  .action = Discrete{1}};
  EXPECT_EQ(channels_first("").spec_of(spec).observation.front().high, (std::vector<double>{1, 3, 2, 4}));
}

// A flat leaf is no image.
TEST(ChannelsTest, WithoutAnImageTheyAreRefused) {
  EXPECT_THAT(refusal_of<Tally>({"channels_first"}), HasSubstr("leaf 'obs' is float32[3], no image"));
}

TEST(GreyTest, WeighsColoursAndRoundsDown) {
  Wrapped<Pictures> grey({"grey"}), first({"channels_first", "grey"}), plain({});
  EXPECT_THAT(grey.group().spec().observation[0].shape, ElementsAre(1, 6, 4));
  for (int step = 0; step < 5; ++step) {
    grey.step(0), first.step(0), plain.step(0);
    const bool ends = plain.terminated();
    const auto pixels = ends ? plain.last_seen<std::uint8_t>() : plain.seen<std::uint8_t>();
    std::vector<std::uint8_t> expected;
    for (std::size_t i = 0; i < pixels.size(); i += 3) {
      expected.push_back(
          static_cast<std::uint8_t>(pixels[i] * 0.2125 + pixels[i + 1] * 0.7154 + pixels[i + 2] * 0.0721));
    }
    EXPECT_THAT(ends ? grey.last_seen<std::uint8_t>() : grey.seen<std::uint8_t>(), ElementsAreArray(expected));
    EXPECT_EQ(first.seen<std::uint8_t>(), grey.seen<std::uint8_t>());
  }
  EXPECT_THAT(refusal_of<Pictures>({"grey", "grey"}), HasSubstr("no image of three colours"));
}

}  // namespace
}  // namespace tandem::rl
