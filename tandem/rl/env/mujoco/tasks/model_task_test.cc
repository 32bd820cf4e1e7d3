#include "tandem/rl/env/mujoco/tasks/model_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/rl/env/env_buffers.h"

namespace tandem::rl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kSled = R"(<mujoco>
  <worldbody>
    <body name='sled'>
      <joint name='x' type='slide' axis='1 0 0'/>
      <geom type='box' size='.1 .1 .1' mass='1'/>
      <site name='far' pos='-.5 0 0'/>
    </body>
  </worldbody>
  <actuator><motor joint='x' gear='10' ctrllimited='true' ctrlrange='-1 1'/></actuator>
  <sensor><jointvel name='forward' joint='x'/><framepos name='beyond' objtype='site' objname='far'/></sensor>
</mujoco>)";

class ModelTaskTest : public ::testing::Test {
 protected:
  ModelTaskTest() : file_((folder_ / "sled.xml").string()), registry_(EnvRegistry::native()) {
    std::ofstream(file_) << kSled;
  }

  const TemporaryFolder folder_;
  const std::string file_;
  EnvRegistry registry_;
};

TEST_F(ModelTaskTest, RewardAndEndAreSensorsOfTheModel) {
  registry_.set_options("mujoco", {{"model", file_},
                                   {"reward", "forward"},
                                   {"until", "beyond"},
                                   {"shows", "both"},
                                   {"frame_skip", "10"},
                                   {"max_episode_steps", "70"},
                                   {"reset_noise_scale", "0"}});
  const Spec& spec = registry_.spec("mujoco");
  EXPECT_EQ(describe(spec.action), describe(ActionSpace(Box{{-1}, {1}})));
  EXPECT_EQ(spec.observation.front().count(), 2 + 4) << "place and speed; a speed and a place in space";
  EXPECT_EQ(spec.max_episode_steps, 70);
  const auto group = registry_.make("mujoco", 2);
  EnvBuffers buffers(*group);
  const std::vector<std::uint64_t> seeds{1, 2};
  group->reset(seeds, buffers.arrays());
  const std::vector<float> push{1, -1};
  int steps = 0;
  double last = 0;
  for (; buffers.terminated()[0] == 0; ++steps) {
    ASSERT_LT(steps, 60);
    group->step({.box = push.data()}, buffers.arrays());
    EXPECT_GT(buffers.reward()[0], last) << "it is pushed forward";
    last = buffers.reward()[0];
    EXPECT_EQ(buffers.terminated()[1], 0);
  }
  EXPECT_GT(buffers.final_observation<double>(0)[0], 0.5);
}

TEST_F(ModelTaskTest, WhatIsMissingIsNamed) {
  const auto answer = [&](const EnvOptionTexts& options) {
    return message_of<ConfigError>([&] { registry_.set_options("mujoco", options); });
  };
  const std::string needs = "'mujoco' needs a model and its reward: --env-option model=./mine.xml";
  EXPECT_THAT(message_of<ConfigError>([&] { (void)registry_.make("mujoco", 1); }), HasSubstr(needs));
  EXPECT_THAT(answer({{"model", file_}}), HasSubstr(needs));
  EXPECT_THAT(answer({{"model", file_}, {"reward", "backward"}}),
              AllOf(HasSubstr("the model has no sensor 'backward'"), HasSubstr("forward, beyond")));
  EXPECT_THAT(answer({{"model", "./nowhere.xml"}, {"reward", "forward"}}),
              HasSubstr("there is no model './nowhere.xml'"));
}

}  // namespace
}  // namespace tandem::rl
