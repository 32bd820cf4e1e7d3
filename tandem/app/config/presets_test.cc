// Which settings an environment gets by its name.
#include "tandem/app/config/presets.h"

#include <gtest/gtest.h>

#include <string>

namespace tandem::app {
namespace {

std::string file_for(std::string_view algo, std::string_view env) {
  const Preset* preset = find_preset(algo, env);
  return preset == nullptr ? "none" : std::string(preset->file);
}

TEST(PresetsTest, ATaskOfAPythonHasTheSettingsOfItsName) {
  for (const std::string env : {"CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Pendulum-v1", "HalfCheetah-v5"}) {
    EXPECT_EQ(file_for("ppo", env), "shipped settings ppo/" + env);
    EXPECT_EQ(find_preset("ppo", "gymnasium:" + env), find_preset("ppo", env)) << env;
    EXPECT_EQ(find_preset("ppo", "gymnasium:my.module:" + env), find_preset("ppo", env)) << env;
  }
  EXPECT_EQ(file_for("ppo", "gymnasium:LunarLander-v3"), "shipped settings ppo/LunarLander-v3");
  EXPECT_EQ(file_for("ppo", "gymnasium:BipedalWalker-v3"), "shipped settings ppo/BipedalWalker-v3");
  EXPECT_EQ(file_for("impala", "gymnasium:CartPole-v1"), "shipped settings impala/CartPole-v1");
  EXPECT_EQ(file_for("impala", "gymnasium:LunarLander-v3"), "none");
  EXPECT_EQ(file_for("ppo", "gymnasium:LunarLander-v2"), "none");
  EXPECT_EQ(file_for("ppo", "pettingzoo:pettingzoo.sisl.pursuit_v4"), "none");
  EXPECT_EQ(file_for("ppo", ""), "none");
}

TEST(PresetsTest, AFamilyHasSettingsForAllOfItsTasks) {
  EXPECT_EQ(file_for("ppo", "ALE/Pong-v5"), "shipped settings ppo/_atari");
  EXPECT_EQ(file_for("appo", "gymnasium:ale_py:ALE/Breakout-v5"), "shipped settings appo/_atari");
  EXPECT_EQ(file_for("ppo", "gymnasium:minigrid:MiniGrid-DoorKey-5x5-v0"), "shipped settings ppo/_minigrid");
  EXPECT_EQ(file_for("appo", "gymnasium:minigrid:MiniGrid-DoorKey-5x5-v0"), "none");
  EXPECT_EQ(file_for("ppo", "gymnasium:minigrid:BabyAI-GoToObj-v0"), "none");
}

}  // namespace
}  // namespace tandem::app
