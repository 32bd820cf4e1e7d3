#include "tandem/rl/env/env_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tandem/base/error.h"

namespace tandem::rl {
namespace {

std::string fault_of(const Spec& spec, std::size_t rows, const EnvActions& actions) {
  try {
    check_actions(spec, rows, actions);
  } catch (const EnvError& error) {
    return error.what();
  }
  return "";
}

TEST(ActionCheckTest, EachChoiceHasItsOwnOptions) {
  const Spec spec{.id = "A", .action = MultiDiscrete{{3, 2}}};
  const auto fault = [&](std::vector<std::int64_t> actions) {
    return fault_of(spec, actions.size() / 2, {.discrete = actions.data()});
  };
  EXPECT_EQ(fault({0, 0, 2, 1}), "");
  EXPECT_EQ(fault({0, 0, 2, 2}), "A: environment 1 was given action 2 for choice 1; its options are 0 .. 1");
  EXPECT_EQ(fault({0, 1, 3, 0}), "A: environment 1 was given action 3 for choice 0; its options are 0 .. 2");
  EXPECT_EQ(fault({0, -1, 0, 0}), "A: environment 0 was given action -1 for choice 1; its options are 0 .. 1");
}

TEST(ActionCheckTest, ABoxMayExceedItsBoundsButMustBeFinite) {
  const Spec spec{.id = "A", .action = Box{{-1, -1}, {1, 1}}};
  std::vector<float> actions = {0.0f, 50.0f, -50.0f, 0.0f};
  EXPECT_EQ(fault_of(spec, 2, {.box = actions.data()}), "");
  actions[3] = -std::numeric_limits<float>::infinity();
  EXPECT_THAT(fault_of(spec, 2, {.box = actions.data()}),
              ::testing::StartsWith("A: environment 1 was given -inf as element 1 of its action"));
}

TEST(ActionCheckTest, ActionsOfTheOtherKindAreADefectOfTheCaller) {
  const float number = 0;
  const std::int64_t choice = 0;
  EXPECT_THROW(check_actions({.id = "A", .action = Discrete{2}}, 1, {.box = &number}), InvariantError);
  EXPECT_THROW(check_actions({.id = "A", .action = Box{{0}, {1}}}, 1, {.discrete = &choice}), InvariantError);
}

TEST(ActionCheckTest, AMaskLeavesAnOptionForEachChoice) {
  const auto check = [](const ActionSpace& space, std::vector<std::uint8_t> allowed) { check_mask(space, allowed); };
  EXPECT_NO_THROW(check(Discrete{3}, {0, 1, 0}));
  EXPECT_THROW(check(Discrete{3}, {0, 0, 0}), EnvError);
  EXPECT_THROW(check(Discrete{3}, {0, 2, 0}), EnvError);
  EXPECT_NO_THROW(check(MultiDiscrete{{2, 3}}, {1, 0, 0, 0, 1}));
  EXPECT_THROW(check(MultiDiscrete{{2, 3}}, {1, 1, 0, 0, 0}), EnvError);
  EXPECT_THROW(check(MultiDiscrete{{2, 3}}, {0, 0, 1, 1, 1}), EnvError);
}

}  // namespace
}  // namespace tandem::rl
