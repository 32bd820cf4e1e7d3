// Plants what keeps a policy from learning, and is no fault: check_env() warns of each, or gives advice.
#include <gtest/gtest.h>

#include <vector>

#include "tandem/rl/env/testing/sound.h"

namespace tandem::rl {
namespace {

// NOLINTBEGIN(bugprone-derived-method-shadowing-base-method): each struct is a sound one but for one function

using testing::check;
using testing::Sound;
using testing::texts;

struct Beyond : Sound {
  static Spec spec() {
    Spec its = Sound::spec();
    its.observation[0].high = {0.5, 3};
    return its;
  }
};
TEST(EnvCheckWarningsTest, ANumberOutsideOfItsBounds) { EXPECT_FOUND(Beyond, Weight::kWarning, "observation-bounds"); }

struct NeverWritten : Sound {
  Observation reset(NumpyGenerator& random) {
    Sound::reset(random);
    return {};
  }
  StepResult<Observation> step(std::span<const float> push) {
    auto result = Sound::step(push);
    result.observation = {};
    return result;
  }
  Observation load(std::span<const std::byte> state) {
    Sound::load(state);
    return {};
  }
};
TEST(EnvCheckWarningsTest, AnObservationThatNeverChanges) {
  EXPECT_NE(texts(check<NeverWritten>()).find("constant-observation"), std::string::npos);
}

struct DeafToOne : Sound {
  StepResult<Observation> step(std::span<const float> push) {
    const std::array<float, 2> heard{push[0], 0};
    return Sound::step(heard);
  }
};
TEST(EnvCheckWarningsTest, AnActionWithoutEffect) {
  EXPECT_FOUND(DeafToOne, Weight::kWarning, "no-effect");
  EXPECT_NE(texts(check<DeafToOne>()).find("element 1 of the action"), std::string::npos);
}

struct NoReward : Sound {
  StepResult<Observation> step(std::span<const float> push) {
    auto result = Sound::step(push);
    result.reward = 0;
    return result;
  }
};
TEST(EnvCheckWarningsTest, NoRewardAtAll) { EXPECT_FOUND(NoReward, Weight::kWarning, "no-reward"); }

struct Endless : Sound {
  static Spec spec() {
    Spec its = Sound::spec();
    its.max_episode_steps = 0;
    return its;
  }
  StepResult<Observation> step(std::span<const float> push) {
    auto result = Sound::step(push);
    place = std::clamp(place, -2.0, 2.0);
    result.observation = shown();
    result.terminated = false;
    return result;
  }
};
TEST(EnvCheckWarningsTest, EpisodesWithoutEnd) { EXPECT_FOUND(Endless, Weight::kWarning, "endless-episodes"); }

struct LimitTerminates : Endless {
  Observation reset(NumpyGenerator& random) {
    steps = 0;
    return Sound::reset(random);
  }
  StepResult<Observation> step(std::span<const float> push) {
    auto result = Endless::step(push);
    result.terminated = ++steps == 130;
    return result;
  }
  [[nodiscard]] std::array<double, 3> save() const { return {place, speed, static_cast<double>(steps)}; }
  Observation load(std::span<const std::byte> state) {
    double saved = 0;
    std::memcpy(&saved, state.data() + 16, 8);
    steps = static_cast<int>(saved);
    return Sound::load(state);
  }
  int steps = 0;
};
TEST(EnvCheckWarningsTest, ATimeLimitThatTerminates) { EXPECT_FOUND(LimitTerminates, Weight::kWarning, "time-limit"); }

struct Keeps : Sound {
  StepResult<Observation> step(std::span<const float> push) {
    kept.insert(kept.end(), 2000, push[0]);
    return Sound::step(push);
  }
  std::vector<double> kept;
};
TEST(EnvCheckWarningsTest, MemoryThatGrows) { EXPECT_FOUND(Keeps, Weight::kWarning, "memory"); }

struct Picture : Sound {
  using Observation = std::array<std::uint8_t, 48>;
  static Spec spec() {
    Spec its = Sound::spec();
    its.observation = {{.type = ElementType::kUInt8, .shape = {3, 4, 4}}};
    return its;
  }
  Observation reset(NumpyGenerator& random) {
    Sound::reset(random);
    return picture();
  }
  StepResult<Observation> step(std::span<const float> push) {
    const auto result = Sound::step(push);
    return {.observation = picture(), .reward = result.reward, .terminated = result.terminated};
  }
  Observation load(std::span<const std::byte> state) {
    Sound::load(state);
    return picture();
  }
  [[nodiscard]] Observation picture() const {
    Observation shown{};
    shown[static_cast<std::size_t>(std::clamp((place + 2.5) * 9, 0.0, 47.0))] = bright;
    return shown;
  }
  std::uint8_t bright = 1;
};
TEST(EnvCheckWarningsTest, BytesThatAreHardlyMoreThanZero) { EXPECT_FOUND(Picture, Weight::kWarning, "byte-scale"); }

struct ChannelsLast : Picture {
  static Spec spec() {
    Spec its = Sound::spec();
    its.observation = {{.type = ElementType::kUInt8, .shape = {8, 3, 2}}};
    return its;
  }
  ChannelsLast() { bright = 255; }
};
TEST(EnvCheckWarningsTest, AnImageWithItsChannelsLast) {
  EXPECT_FOUND(ChannelsLast, Weight::kWarning, "channels-last");
}

struct Masked : Sound {
  static Spec spec() {
    Spec its = Sound::spec();
    its.action = Discrete{3};
    its.has_action_mask = true;
    return its;
  }
  using Sound::step;
  StepResult<Observation> step(std::int64_t way) {
    const std::array<float, 2> push{static_cast<float>(way - 1), 0};
    return Sound::step(push);
  }
  void action_mask(std::span<std::uint8_t> allowed) const { std::ranges::fill(allowed, 1); }
};
TEST(EnvCheckWarningsTest, AMaskThatAllowsAll) { EXPECT_FOUND(Masked, Weight::kWarning, "mask"); }

struct Large : Sound {
  static Spec spec() {
    Spec its = Sound::spec();
    its.observation[0].low = its.observation[0].high = {};
    its.action = Box{.low = {-1, -INFINITY}, .high = {1, 1}};
    return its;
  }
  Observation reset(NumpyGenerator& random) { return shift(Sound::reset(random)); }
  StepResult<Observation> step(std::span<const float> push) {
    auto result = Sound::step(push);
    result.observation = shift(result.observation);
    result.reward *= 1e6;
    return result;
  }
  Observation load(std::span<const std::byte> state) { return shift(Sound::load(state)); }
  static Observation shift(Observation shown) { return {shown[0] + 1000, shown[1] / 1000}; }
};
TEST(EnvCheckWarningsTest, ScalesThatAreHardToLearn) {
  EXPECT_FOUND(Large, Weight::kAdvice, "open-action observation-scale observation-scale reward-scale");
}

// NOLINTEND(bugprone-derived-method-shadowing-base-method)

}  // namespace
}  // namespace tandem::rl
