// What check_env() says of numbers that float32 does not tell apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/rl/env/testing/sound.h"

namespace tandem::rl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::Sound;

// A sound environment that shows a clock besides, which goes on by `tick` from `start` on.
struct Clocked : Sound {
  using Observation = std::tuple<std::array<float, 2>, double>;
  static Spec spec() {
    Spec its = Sound::spec();
    its.id = "Clocked-v0";
    its.observation.push_back({.name = "clock", .type = type, .shape = {}});
    return its;
  }
  Observation reset(NumpyGenerator& random) {
    ticks = 0;
    return {Sound::reset(random), start};
  }
  StepResult<Observation> step(std::span<const float> push) {
    const StepResult<Sound::Observation> result = Sound::step(push);
    return {.observation = {result.observation, start + tick * ++ticks},
            .reward = result.reward,
            .terminated = result.terminated};
  }
  [[nodiscard]] std::array<double, 3> save() const { return {place, speed, static_cast<double>(ticks)}; }
  Observation load(std::span<const std::byte> state) {
    std::array<double, 3> all{};
    std::memcpy(all.data(), state.data(), sizeof all);
    ticks = static_cast<int>(all[2]);
    return {Sound::load(state.first(16)), start + tick * ticks};
  }
  int ticks = 0;
  static inline ElementType type;
  static inline double start, tick;
};

struct Found {
  std::string warnings, texts;
};
Found of_clock(ElementType type, double start, double tick) {
  Clocked::type = type;
  Clocked::start = start;
  Clocked::tick = tick;
  const EnvCheck check = testing::check<Clocked>();
  EXPECT_FALSE(check.has(Weight::kFault)) << testing::texts(check);
  return {testing::kinds(check, Weight::kWarning), testing::texts(check)};
}

TEST(PrecisionFindingsTest, AFloat32LeafThatLosesWhatItsDoublesTellIsNamed) {
  const Found stands = of_clock(ElementType::kFloat32, 1.7e9, 0.01);
  EXPECT_THAT(stands.warnings, HasSubstr("observation-precision"));
  EXPECT_THAT(stands.texts,
              HasSubstr("observation 'clock': element 0 lies around 1.7e+09 and never changes, and float32 "
                        "has steps of 128 there"));
  const Found jumps = of_clock(ElementType::kFloat32, 1e6, 0.01);
  EXPECT_THAT(jumps.warnings, HasSubstr("observation-precision"));
  EXPECT_THAT(jumps.texts, HasSubstr("float32 has steps of 0.0625 there"));
}

TEST(PrecisionFindingsTest, AFloat64LeafHasTheAdviceToNormaliseIt) {
  const Found found = of_clock(ElementType::kFloat64, 1.7e9, 0.01);
  EXPECT_THAT(found.warnings, Not(HasSubstr("observation-precision")));
  EXPECT_THAT(found.texts, HasSubstr("policies see it so unless normalize.observations=true"));
}

TEST(PrecisionFindingsTest, NumbersThatFloat32TellsApartAreLeftAlone) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kFloat64})
    EXPECT_THAT(of_clock(type, 0, 0.01).texts, Not(HasSubstr("observation-precision")));
}

}  // namespace
}  // namespace tandem::rl
