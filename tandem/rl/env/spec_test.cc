#include "tandem/rl/env/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tandem/base/error.h"

namespace tandem::rl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Spec good() {
  return {.id = "Mine-v0",
          .observation = {{.name = "image", .type = ElementType::kUInt8, .shape = {3, 4, 5}},
                          {.name = "speed", .shape = {}, .low = {-1}, .high = {1}}},
          .action = MultiDiscrete{{3, 2}},
          .max_episode_steps = 10,
          .has_action_mask = true};
}

TEST(SpecTest, SizesFollowShapesAndSpaces) {
  const Spec spec = good();
  EXPECT_EQ(spec.observation[0].count(), 60);
  EXPECT_EQ(spec.observation[0].bytes(), 60u);
  EXPECT_EQ(spec.observation[1].count(), 1);
  EXPECT_EQ(spec.observation[1].bytes(), 4u);
  EXPECT_EQ((Leaf{.type = ElementType::kInt64, .shape = {7}}.bytes()), 56u);
  EXPECT_EQ(action_elements(Discrete{9}), 1);
  EXPECT_EQ(action_elements(spec.action), 2);
  EXPECT_EQ(action_elements(Box{{0, 0, 0}, {1, 1, 1}}), 3);
  EXPECT_EQ(mask_elements(Discrete{9}), 9);
  EXPECT_EQ(mask_elements(spec.action), 5);
  EXPECT_EQ(mask_elements(Box{{0}, {1}}), 0);
}

TEST(SpecTest, AGoodSpecHasNoFaults) {
  EXPECT_THAT(spec_faults(good()), IsEmpty());
  EXPECT_NO_THROW(check_spec(good()));
}

struct Fault {
  std::function<void(Spec&)> spoil;
  const char* message;
};

// Prints what the fault should say, so that a failing case names itself.
std::ostream& operator<<(std::ostream& out, const Fault& fault) { return out << fault.message; }

class SpecFaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(SpecFaultTest, IsNamedAlone) {
  Spec spec = good();
  GetParam().spoil(spec);
  EXPECT_THAT(spec_faults(spec), ElementsAre(HasSubstr(GetParam().message)));
}

const double kNaN = std::numeric_limits<double>::quiet_NaN();

INSTANTIATE_TEST_SUITE_P(
    Each, SpecFaultTest,
    ::testing::Values(Fault{[](Spec& s) { s.id.clear(); }, "id is empty"},
                      Fault{[](Spec& s) { s.observation.clear(); }, "observation has no leaf"},
                      Fault{[](Spec& s) { s.observation[1].name.clear(); }, "leaf 1 has no name"},
                      Fault{[](Spec& s) { s.observation[1].name = "image"; }, "leaves 0 and 1 are both named 'image'"},
                      Fault{[](Spec& s) {
                              s.observation[0].shape = {3, 0};
                            },
                            "shape [3, 0] has an extent <= 0"},
                      Fault{[](Spec& s) { s.observation[0].shape = {-3}; }, "shape [-3] has an extent <= 0"},
                      Fault{[](Spec& s) {
                              s.observation[0].shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
                            },
                            "has more than 4294967296"},
                      Fault{[](Spec& s) {
                              s.observation[1].low = {0, 0};
                            },
                            "low has 2 entries for 1 elements"},
                      Fault{[](Spec& s) { s.observation[1].high.clear(); }, "give both low and high"},
                      Fault{[](Spec& s) { s.observation[1].low = {2}; }, "low[0] = 2 must be <= high[0] = 1"},
                      Fault{[](Spec& s) { s.observation[1].high = {kNaN}; }, "low[0] = -1 must be <= high[0] = nan"},
                      Fault{[](Spec& s) { s.action = Discrete{0}; }, "action Discrete(0)"},
                      Fault{[](Spec& s) { s.action = MultiDiscrete{}; }, "at least one choice"},
                      Fault{[](Spec& s) {
                              s.action = MultiDiscrete{{2, -1}};
                            },
                            "choice 1 has -1 options"},
                      Fault{[](Spec& s) {
                              s.action = Box{};
                              s.has_action_mask = false;
                            },
                            "at least one element"},
                      Fault{[](Spec& s) {
                              s.action = Box{{0, 0}, {1}};
                              s.has_action_mask = false;
                            },
                            "low has 2 entries and high has 1"},
                      Fault{[](Spec& s) {
                              s.action = Box{{3}, {1}};
                              s.has_action_mask = false;
                            },
                            "action Box: low[0] = 3"},
                      Fault{[](Spec& s) {
                              s.action = Box{{0}, {1}};
                            },
                            "has_action_mask with a Box"},
                      Fault{[](Spec& s) { s.max_episode_steps = -1; }, "max_episode_steps = -1"},
                      Fault{[](Spec& s) { s.reward_threshold = kNaN; }, "reward_threshold = nan"},
                      Fault{[](Spec& s) { s.agents = 0; }, "agents = 0"}));

TEST(SpecTest, AllFaultsAreReportedTogetherAndNameTheEnvironment) {
  Spec spec = good();
  spec.agents = 0;
  spec.action = Discrete{-2};
  try {
    check_spec(spec);
    FAIL() << "expected a ConfigError";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.faults(), ElementsAre(HasSubstr("Discrete(-2)"), HasSubstr("agents = 0")));
    EXPECT_THAT(error.what(), HasSubstr("environment 'Mine-v0'"));
  }
}

TEST(SpecTest, DescriptionsNameTypeShapeAndBounds) {
  EXPECT_EQ(describe(good().observation[0]), "image uint8[3, 4, 5]");
  EXPECT_EQ(describe(good().observation[1]), "speed float32[]");
  EXPECT_EQ(describe(ActionSpace{Discrete{2}}), "Discrete(2)");
  EXPECT_EQ(describe(good().action), "MultiDiscrete(3, 2)");
  EXPECT_EQ(describe(ActionSpace{Box{{-2, -2}, {2, 2}}}), "Box(2) in [-2, 2]");
  EXPECT_EQ(describe(ActionSpace{Box{{-2, -1}, {2, 2}}}), "Box(2) in [-2, 2] x [-1, 2]");
  EXPECT_EQ(describe(ActionSpace{Box{{0, 1, 2, 3, 4, 5, 6}, {9, 9, 9, 9, 9, 9, 9}}}),
            "Box(7) in [0, 9] x [1, 9] x [2, 9] x [3, 9] x [4, 9] x [5, 9] x ...");
}

}  // namespace
}  // namespace tandem::rl
