// What a real Python says of the environments that it has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/rl/env/python/python_envs.h"
#include "tandem/rl/env/python/python_list.h"

namespace tandem::rl {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;

PythonList list_of(const std::string& name) {
  return read_python_list(name, told_by_worker(name, {{kInterpreterOption, TEST_PYTHON}}, {}));
}

// The package that makes it; empty where it is not listed.
std::string maker_of(const PythonList& list, const std::string& name) {
  const auto its = std::ranges::find(list.names, name, &PythonName::name);
  return its == list.names.end() ? "" : its->of;
}

TEST(PythonListTest, GymnasiumsOwnAreListedInTheirNewestVersion) {
  const PythonList list = list_of("gymnasium:");
  EXPECT_EQ(maker_of(list, "gymnasium:CartPole-v1"), "gymnasium.envs.classic_control");
  EXPECT_EQ(maker_of(list, "gymnasium:CartPole-v0"), "");
  EXPECT_EQ(maker_of(list, "gymnasium:GymV21Environment-v0"), "");
  EXPECT_THAT(list.packages, Contains(Field(&PythonPackage::lists, "gymnasium:minigrid:")));
  EXPECT_THAT(list.packages, Contains(Field(&PythonPackage::lists, "pettingzoo:")));
}

TEST(PythonListTest, AModulesAreThoseThatItRegisters) {
  const PythonList grids = list_of("gymnasium:minigrid:");
  EXPECT_EQ(maker_of(grids, "gymnasium:minigrid:MiniGrid-Empty-8x8-v0"), "minigrid.envs");
  EXPECT_EQ(maker_of(grids, "gymnasium:minigrid:CartPole-v1"), "");
  EXPECT_EQ(maker_of(list_of("gymnasium:spaces_env:"), "gymnasium:spaces_env:Nested-v0"), "spaces_env");
  const PythonList games = list_of("ALE/");
  EXPECT_EQ(maker_of(games, "ALE/Pong-v5"), "ale_py.env");
  EXPECT_EQ(maker_of(games, "gymnasium:ale_py:Pong-v4"), "");
  EXPECT_THAT(message_of<ConfigError>([] { (void)list_of("gymnasium:no_such_module:"); }),
              AllOf(HasSubstr("cannot import 'no_such_module'"), HasSubstr("-m pip install")));
}

TEST(PythonListTest, PettingZoosAreModulesThatHaveTheParallelApi) {
  const PythonList list = list_of("pettingzoo:");
  EXPECT_EQ(maker_of(list, "pettingzoo:pettingzoo.butterfly.pistonball_v6"), "pettingzoo.butterfly");
  EXPECT_EQ(maker_of(list, "pettingzoo:pettingzoo.classic.chess_v6"), "");
  EXPECT_EQ(maker_of(list, "pettingzoo:pettingzoo.utils.conversions"), "");
}

}  // namespace
}  // namespace tandem::rl
