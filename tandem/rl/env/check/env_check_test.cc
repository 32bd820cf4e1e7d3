// Plants one fault after the other into an environment that has none, and looks whether the check finds each, and
// nothing else that weighs as much.
#include "tandem/rl/env/check/env_check.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cfenv>
#include <clocale>
#include <cstring>
#include <filesystem>

#include "tandem/rl/env/mujoco/mujoco_envs.h"
#include "tandem/rl/env/testing/sound.h"

namespace tandem::rl {
namespace {

// NOLINTBEGIN(bugprone-derived-method-shadowing-base-method): each struct is a sound one but for one function

using testing::check;
using testing::kinds;
using testing::Sound;
using testing::texts;

TEST(EnvCheckTest, ASoundEnvironmentHasNoFinding) {
  const EnvCheck found = check<Sound>();
  EXPECT_EQ(texts(found), "");
  EXPECT_EQ(found.observed.steps(), 2000);
  EXPECT_GT(found.observed.lengths().count(), 100);
  EXPECT_GT(found.steps_per_second, 0);
}

// MuJoCo's take longer, and have a shorter test of their own (mujoco/tasks).
TEST(EnvCheckTest, TheNativeEnvironmentsHaveNone) {
  const EnvRegistry native = EnvRegistry::native();
  std::vector<std::string> names;
  for (const EnvEntry& entry : native.entries()) names.push_back(entry.spec.id);
  std::erase_if(names, [](const std::string& name) { return std::ranges::count(mujoco_names(), name) > 0; });
  for (const MultiAgentEntry& entry : native.multi_agent_entries()) names.push_back(entry.spec.id);
  ASSERT_GE(names.size(), 8u);
  for (const std::string& name : names) {
    const EnvCheck found = check_env(native, name, {});
    EXPECT_FALSE(found.has(Weight::kFault) || found.has(Weight::kWarning)) << name << "\n" << texts(found);
  }
}

TEST(EnvCheckTest, ANameThatIsNotThereIsTheUsersMistake) {
  EXPECT_THROW((void)check_env(EnvRegistry::native(), "CartPool-v1", {}), ConfigError);
}

struct GlobalRandom : Sound {
  StepResult<Observation> step(std::span<const float> push) {
    static NumpyGenerator global;
    place += global.uniform(-0.01, 0.01);
    return Sound::step(push);
  }
};
TEST(EnvCheckTest, RandomNumbersOfAGlobalGenerator) { EXPECT_FOUND(GlobalRandom, Weight::kFault, "determinism"); }

struct ResetForgets : Sound {
  Observation reset(NumpyGenerator& random) {
    const double before = speed;
    Sound::reset(random);
    speed = before / 2;
    return shown();
  }
};
TEST(EnvCheckTest, AResetThatLeavesSomething) { EXPECT_FOUND(ResetForgets, Weight::kFault, "reset"); }

struct SharedWind : Sound {
  static inline double wind = 0;
  Observation reset(NumpyGenerator& random) {
    wind = 0;
    return Sound::reset(random);
  }
  StepResult<Observation> step(std::span<const float> push) {
    wind = 0.5 * wind + 0.01 * push[1];
    place += wind;
    return Sound::step(push);
  }
};
TEST(EnvCheckTest, AVariableThatAllShare) { EXPECT_FOUND(SharedWind, Weight::kFault, "shared-state"); }

struct ResetsItself : Sound {
  Observation reset(NumpyGenerator& source) {
    random = &source;
    steps = 0;
    return Sound::reset(source);
  }
  StepResult<Observation> step(std::span<const float> push) {
    StepResult<Observation> result = Sound::step(push);
    if (result.terminated || ++steps == 40) {
      steps = 0;
      result.terminated = true;
      // Draws what the next reset() will draw.
      const NumpyGenerator::State state = random->state();
      result.observation = Sound::reset(*random);
      random->set_state(state);
    }
    return result;
  }
  NumpyGenerator* random = nullptr;
  int steps = 0;
  [[nodiscard]] std::array<double, 3> save() const { return {place, speed, static_cast<double>(steps)}; }
  Observation load(std::span<const std::byte> state) {
    double saved = 0;
    std::memcpy(&saved, state.data() + 16, 8);
    steps = static_cast<int>(saved);
    return Sound::load(state);
  }
};
TEST(EnvCheckTest, AStepThatResets) { EXPECT_FOUND(ResetsItself, Weight::kFault, "final-observation"); }

struct SavesLittle : Sound {
  [[nodiscard]] std::array<double, 2> save() const { return {place, 0}; }
};
TEST(EnvCheckTest, ASaveThatLeavesSomethingOut) { EXPECT_FOUND(SavesLittle, Weight::kFault, "save"); }

// The picture shakes: it draws random numbers of the environment's own.
struct Shaky : Sound {
  Observation reset(NumpyGenerator& random) {
    generator = &random;
    return Sound::reset(random);
  }
  StepResult<Observation> step(std::span<const float> action) {
    auto result = Sound::step(action);
    result.reward += 0.001 * generator->random();
    return result;
  }
  void render(Canvas& canvas) const {
    canvas.view(-2, -1, 2, 1);
    canvas.disc({place, 0.1 * generator->random()}, 0.1, Canvas::kBlue);
  }
  NumpyGenerator* generator = nullptr;
};
TEST(EnvCheckTest, APictureThatDrawsRandomNumbers) { EXPECT_FOUND(Shaky, Weight::kFault, "render"); }

struct DrawsNothing : Sound {
  void render(Canvas&) const {}
};
TEST(EnvCheckTest, APictureWithoutShapes) { EXPECT_FOUND(DrawsNothing, Weight::kWarning, "render"); }

struct DrawsNan : Sound {
  void render(Canvas& canvas) const {
    canvas.view(-1, -1, 1, 1);
    canvas.disc({std::nan(""), 0}, 1, Canvas::kBlue);
  }
};
TEST(EnvCheckTest, APictureThatFails) { EXPECT_FOUND(DrawsNan, Weight::kFault, "error"); }

struct Throws : Sound {
  StepResult<Observation> step(std::span<const float> push) {
    if (push[0] > 0.999 && push[1] > 0.999) throw std::runtime_error("the joint is at its end");
    return Sound::step(push);
  }
};
TEST(EnvCheckTest, AnErrorAtABound) {
  const EnvCheck found = check<Throws>();
  ASSERT_EQ(kinds(found, Weight::kFault), "error");
  EXPECT_NE(texts(found).find("the joint is at its end"), std::string::npos) << texts(found);
}

struct NotFinite : Sound {
  StepResult<Observation> step(std::span<const float> push) {
    StepResult<Observation> result = Sound::step(push);
    if (result.terminated) result.reward = std::log(-1.0);
    return result;
  }
};
TEST(EnvCheckTest, ARewardThatIsNotFinite) { EXPECT_FOUND(NotFinite, Weight::kFault, "error"); }

struct Rounds : Sound {
  Observation reset(NumpyGenerator& random) {
    std::fesetround(FE_TOWARDZERO);
    return Sound::reset(random);
  }
};
TEST(EnvCheckTest, AnotherRounding) {
  const EnvCheck found = check<Rounds>();
  EXPECT_NE(texts(found).find("process: it changed the process's rounding"), std::string::npos) << texts(found);
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
}

struct Moves : Sound {
  Observation reset(NumpyGenerator& random) {
    std::filesystem::current_path("/");
    return Sound::reset(random);
  }
};
TEST(EnvCheckTest, AnotherFolder) {
  const std::filesystem::path before = std::filesystem::current_path();
  EXPECT_NE(texts(check<Moves>()).find("current folder"), std::string::npos);
  EXPECT_EQ(std::filesystem::current_path(), before);
}

struct Speaks : Sound {
  Observation reset(NumpyGenerator& random) {
    std::setlocale(LC_ALL, "C.UTF-8");
    return Sound::reset(random);
  }
};
TEST(EnvCheckTest, AnotherLocale) {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  EXPECT_NE(texts(check<Speaks>()).find("locale"), std::string::npos);
  EXPECT_EQ(std::setlocale(LC_ALL, nullptr), before);
}

struct Option : Sound {
  using Observation = std::int64_t;
  static Spec spec() {
    Spec its = Sound::spec();
    its.observation = {{.type = ElementType::kInt64, .low = {0}, .high = {3}}};
    return its;
  }
  Observation reset(NumpyGenerator& random) {
    Sound::reset(random);
    return option();
  }
  StepResult<Observation> step(std::span<const float> push) {
    const auto result = Sound::step(push);
    return {.observation = option(), .reward = result.reward, .terminated = result.terminated};
  }
  Observation load(std::span<const std::byte> state) {
    Sound::load(state);
    return option();
  }
  [[nodiscard]] Observation option() const { return static_cast<std::int64_t>(std::floor(place + 2)); }
};
TEST(EnvCheckTest, AnIntegerOutsideOfItsBounds) {
  const EnvCheck found = check<Option>();
  EXPECT_EQ(kinds(found, Weight::kFault), "error") << texts(found);
  EXPECT_NE(texts(found).find("leaf 'obs' is 4; the spec says 0 .. 3"), std::string::npos) << texts(found);
}
struct OpenOption : Option {
  static Spec spec() {
    Spec its = Option::spec();
    its.observation[0].low = its.observation[0].high = {};
    return its;
  }
};
TEST(EnvCheckTest, AnIntegerWithoutBounds) { EXPECT_FOUND(OpenOption, Weight::kFault, "integer-bounds"); }

// NOLINTEND(bugprone-derived-method-shadowing-base-method)

}  // namespace
}  // namespace tandem::rl
