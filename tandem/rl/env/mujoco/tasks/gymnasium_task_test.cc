#include "tandem/rl/env/mujoco/tasks/gymnasium_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/rl/env/check/env_check.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/mujoco/mujoco_places.h"

namespace tandem::rl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The library is required here: a build with these tests has MuJoCo's headers, and its library came with them.
class GymnasiumTasksTest : public ::testing::TestWithParam<std::string> {
 protected:
  static std::unique_ptr<EnvGroup> group(int count, const EnvOptionTexts& options = {}) {
    EnvRegistry registry = EnvRegistry::native();
    registry.set_options(GetParam(), options);
    return registry.make(GetParam(), count);
  }
};

std::vector<std::string> all_ids() {
  std::vector<std::string> ids;
  for (const GymnasiumTask& task : gymnasium_tasks()) ids.push_back(task.entry.spec.id);
  return ids;
}
INSTANTIATE_TEST_SUITE_P(Tasks, GymnasiumTasksTest, ::testing::ValuesIn(all_ids()),
                         [](const auto& id) { return id.param.substr(0, id.param.find('-')); });

// Steps a group with random actions, of which the same seed gives the same.
class Walk {
 public:
  explicit Walk(EnvGroup& group, std::uint64_t seed = 1) : group_(group), buffers_(group), random_(seed) {
    const auto& box = std::get<Box>(group.spec().action);
    low_ = box.low;
    high_ = box.high;
    actions_.resize(low_.size() * buffers_.rows());
  }
  EnvBuffers& buffers() { return buffers_; }
  void reset(std::uint64_t seed) {
    std::vector<std::uint64_t> seeds(buffers_.rows());
    for (std::size_t e = 0; e < seeds.size(); ++e) seeds[e] = seed + e;
    group_.reset(seeds, buffers_.arrays());
  }
  void step() {
    for (std::size_t i = 0; i < actions_.size(); ++i)
      actions_[i] = static_cast<float>(random_.uniform(low_[i % low_.size()], high_[i % low_.size()]));
    group_.step({.box = actions_.data()}, buffers_.arrays());
  }
  // Everything that `steps` steps show.
  std::vector<double> seen(int steps) {
    std::vector<double> all;
    for (int step = 0; step < steps; ++step) {
      this->step();
      for (std::size_t e = 0; e < buffers_.rows(); ++e) {
        const auto row = buffers_.observation<double>(e);
        all.insert(all.end(), row.begin(), row.end());
        all.insert(all.end(), {buffers_.reward()[e], static_cast<double>(buffers_.terminated()[e]),
                               static_cast<double>(buffers_.truncated()[e])});
        if (buffers_.terminated()[e] + buffers_.truncated()[e] > 0)
          all.insert(all.end(), buffers_.metrics(e).begin(), buffers_.metrics(e).end());
      }
    }
    return all;
  }

 private:
  EnvGroup& group_;
  EnvBuffers buffers_;
  NumpyGenerator random_;
  std::vector<double> low_, high_;
  std::vector<float> actions_;
};

// Listings are made without MuJoCo, so they must say what its models say.
TEST_P(GymnasiumTasksTest, TheListedSpecIsTheOneOfTheModel) {
  const auto made = group(1);
  const Spec& is = made->spec();
  const EnvRegistry registry = EnvRegistry::native();
  const Spec& listed = registry.spec(GetParam());
  EXPECT_EQ(is.observation, listed.observation);
  EXPECT_EQ(describe(is.action), describe(listed.action));
  EXPECT_TRUE(is.action == listed.action);
  EXPECT_EQ(is.max_episode_steps, listed.max_episode_steps);
  EXPECT_EQ(is.reward_threshold, listed.reward_threshold);
  EXPECT_EQ(is.render_fps, listed.render_fps);
  ASSERT_EQ(is.metrics.size(), listed.metrics.size());
  for (std::size_t i = 0; i < is.metrics.size(); ++i) EXPECT_EQ(is.metrics[i].name, listed.metrics[i].name);
}

// Two groups: one that goes on, and a new one that the saved state is loaded into, in mid-episode and over ends.
TEST_P(GymnasiumTasksTest, ALoadedStateGoesOnWithTheSameBits) {
  const auto one = group(3), other = group(3);
  Walk goes_on(*one), loaded(*other);
  goes_on.reset(5);
  (void)goes_on.seen(33);
  const std::vector<std::byte> state = one->save();
  const auto shown = goes_on.buffers().observation<double>(1);
  const std::vector<double> before(shown.begin(), shown.end());
  loaded.reset(99);
  (void)loaded.seen(33);  // so that both draw the same actions from here on
  other->load(state, loaded.buffers().arrays());
  const auto after = loaded.buffers().observation<double>(1);
  EXPECT_TRUE(std::ranges::equal(before, after)) << "a load shows what was shown before";
  EXPECT_EQ(other->save(), state);
  std::vector<double> expected = goes_on.seen(60), got = loaded.seen(60);
  EXPECT_EQ(expected, got);
}

TEST_P(GymnasiumTasksTest, AnEnvironmentDoesNotDependOnItsNeighbours) {
  const auto many = group(3), alone = group(1);
  Walk all(*many), one(*alone);
  all.reset(4);
  one.reset(6);
  const std::vector<float> still(std::get<Box>(many->spec().action).low.size() * 3, 0.125F);
  for (int step = 0; step < 40; ++step) {
    many->step({.box = still.data()}, all.buffers().arrays());
    alone->step({.box = still.data()}, one.buffers().arrays());
    ASSERT_TRUE(std::ranges::equal(all.buffers().observation<double>(2), one.buffers().observation<double>(0))) << step;
    ASSERT_EQ(all.buffers().reward()[2], one.buffers().reward()[0]);
  }
}

TEST_P(GymnasiumTasksTest, TheCheckFindsNoFault) {
  const EnvCheck check = check_env(EnvRegistry::native(), GetParam(), {.environments = 2, .steps = 60});
  for (const Finding& finding : check.findings)
    EXPECT_NE(finding.weight, Weight::kFault) << finding.kind << ": " << finding.text;
}

TEST_P(GymnasiumTasksTest, AnotherFrameSkipIsAnotherSpeedOfVideos) {
  const double standard = group(1)->spec().render_fps;
  const double twice = group(1, {{"frame_skip", "1"}})->spec().render_fps;
  EXPECT_GT(twice, standard);
}

// A box on a rail with a motor; and one that cannot move. Code that took joints for granted read beyond MuJoCo's
// arrays.
TEST_P(GymnasiumTasksTest, AModelWithTooLittleIsTheUsersMistake) {
  const TemporaryFolder folder;
  const std::string sled = (folder / "sled.xml").string(), rock = (folder / "rock.xml").string();
  std::ofstream(sled) << "<mujoco><worldbody><body><joint name='x' type='slide' axis='1 0 0'/><geom size='.1'/></body>"
                         "</worldbody><actuator><motor joint='x'/></actuator></mujoco>";
  std::ofstream(rock) << "<mujoco><worldbody><body><geom size='.1'/></body></worldbody></mujoco>";
  EXPECT_THAT(message_of<ConfigError>([&] {
                (void)group(1, {{"xml_file", rock}});
              }),
              AllOf(HasSubstr("the model " + rock + " does not fit " + GetParam() + ": it has 0 positions (nq) where"),
                    HasSubstr("0 actuators (nu) where it needs 1")));
  if (GetParam() == "HalfCheetah-v5") {  // which shows whatever moves
    EXPECT_EQ(group(1, {{"xml_file", sled}})->spec().observation.front().count(), 1);
    return;
  }
  EXPECT_THAT(message_of<ConfigError>([&] {
                (void)group(1, {{"xml_file", sled}});
              }),
              HasSubstr("it has 1 positions (nq) where it needs"));
}

TEST(GymnasiumTaskOptionsTest, FaultsAreNamedBeforeAnythingIsMade) {
  EnvRegistry registry = EnvRegistry::native();
  EXPECT_THAT(
      message_of<ConfigError>([&] {
        registry.set_options("Ant-v5", {{"frame_skip", "0"}, {"healthy_z", "1"}, {"reset_noise_scale", "-1"}});
      }),
      AllOf(HasSubstr("frame_skip=0: takes an integer from 1 to 10000"), HasSubstr("healthy_z=1: Ant-v5 has no"),
            HasSubstr("reset_noise_scale=-1: takes a number at least 0")));
  EXPECT_THAT(message_of<ConfigError>([&] {
                registry.set_options("Ant-v5", {{"xml_file", "aunt.xml"}});
              }),
              HasSubstr("the model 'aunt.xml' was not found"));
  EXPECT_THAT(message_of<ConfigError>([&] {
                registry.set_options("Ant-v5", {{"main_body", "trunk"}});
              }),
              AllOf(HasSubstr("the model has no body 'trunk'"), HasSubstr("torso")));
  EXPECT_THAT(message_of<ConfigError>([&] {
                registry.set_options("Reacher-v5", {{"xml_file", "ant.xml"}});
              }),
              HasSubstr("the model has no body 'fingertip'"));
  EXPECT_THAT(message_of<ConfigError>([&] {
                registry.set_options("InvertedDoublePendulum-v5", {{"xml_file", "hopper.xml"}});
              }),
              HasSubstr("it has 0 sites (nsite) where it needs 1"));
}

TEST(GymnasiumTaskOptionsTest, AMissingModelIsTheUsersMistakeAlsoWhenAGroupIsMade) {
  const MujocoPlaces before = mujoco_places();
  set_mujoco_places({.models = "/nowhere"});
  const std::string message = message_of<ConfigError>([] { (void)EnvRegistry::native().make("Hopper-v5", 2); });
  set_mujoco_places(before);
  EXPECT_THAT(message, HasSubstr("the model 'hopper.xml' was not found (looked in: /nowhere)"));
}

TEST(GymnasiumTaskOptionsTest, AFolderOfModelsThatDoNotFitIsTheUsersMistakeToo) {
  const TemporaryFolder folder;
  std::ofstream(folder / "hopper.xml") << "<mujoco/>";
  const MujocoPlaces before = mujoco_places();
  set_mujoco_places({.models = folder.path().string()});
  const std::string message = message_of<ConfigError>([] { (void)EnvRegistry::native().make("Hopper-v5", 2); });
  set_mujoco_places(before);
  EXPECT_THAT(message, HasSubstr("the model hopper.xml does not fit Hopper-v5: it has 0 positions (nq)"));
}

TEST(GymnasiumTaskOptionsTest, WhatIsShownFollowsTheOptions) {
  EnvRegistry registry = EnvRegistry::native();
  const auto elements = [&](const char* id, const EnvOptionTexts& options) {
    registry.set_options(id, options);
    return registry.spec(id).observation.front().count();
  };
  EXPECT_EQ(elements("HalfCheetah-v5", {{"exclude_current_positions_from_observation", "false"}}), 18);
  EXPECT_EQ(elements("Ant-v5", {{"include_cfrc_ext_in_observation", "false"}}), 27);
  EXPECT_EQ(elements("Humanoid-v5", {{"include_cinert_in_observation", "false"},
                                     {"include_cvel_in_observation", "false"},
                                     {"include_qfrc_actuator_in_observation", "false"},
                                     {"include_cfrc_ext_in_observation", "false"}}),
            45);
  // Another model: an ant for a cheetah has 15 positions and 14 speeds.
  EXPECT_EQ(elements("HalfCheetah-v5", {{"xml_file", "ant.xml"}}), 28);
}

// Options may be drawn for each episode: here the weight of the action's cost.
TEST(GymnasiumTaskOptionsTest, AnOptionMayBeDrawnForEachEpisode) {
  EnvRegistry registry = EnvRegistry::native();
  registry.set_options("HalfCheetah-v5", {{"ctrl_cost_weight", "choice(0, 1000)"}, {"forward_reward_weight", "0"}});
  const auto group = registry.make("HalfCheetah-v5", 16);
  Walk walk(*group);
  walk.reset(1);
  walk.step();
  const auto free = std::ranges::count(walk.buffers().reward(), 0.0);
  EXPECT_GT(free, 0);
  EXPECT_LT(free, 16);
}

// 50 steps in an episode, cut by the limit and not terminated; the next one begins in the same step.
TEST(GymnasiumTaskLimitsTest, TheTimeLimitTruncates) {
  const auto group = EnvRegistry::native().make("Reacher-v5", 2);
  Walk walk(*group);
  walk.reset(1);
  for (int step = 1; step <= 50; ++step) {
    walk.step();
    EXPECT_EQ(walk.buffers().truncated()[0], step == 50) << step;
    EXPECT_EQ(walk.buffers().terminated()[0], 0);
  }
  const auto last = walk.buffers().final_observation<double>(0), first = walk.buffers().observation<double>(0);
  EXPECT_FALSE(std::ranges::equal(last, first));
  EXPECT_GT(walk.buffers().metrics(0)[0], 0) << "the distance to the goal";
}

TEST(GymnasiumTaskLimitsTest, AStateOfAnotherTaskIsRefused) {
  const auto hopper = EnvRegistry::native().make("Hopper-v5", 1), walker = EnvRegistry::native().make("Walker2d-v5", 1);
  Walk one(*hopper), other(*walker);
  one.reset(1);
  other.reset(1);
  EXPECT_THAT(message_of<CheckpointError>([&] { walker->load(hopper->save(), other.buffers().arrays()); }),
              HasSubstr("its environment is 'Hopper-v5' and must be 'Walker2d-v5'"));
}

}  // namespace
}  // namespace tandem::rl
