#include "tandem/rl/env/wrappers/wrapper_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/testing/tally.h"

namespace tandem::rl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::refusal_of;
using testing::Tally;
using testing::Wrapped;

TEST(WrapperListTest, TheFirstOneIsNearestToTheEnvironment) {
  Wrapped<Tally> clipped_first({"reward_clip=15", "frame_skip=2"}), clipped_last({"frame_skip=2", "reward_clip=15"});
  clipped_first.step(0), clipped_last.step(0);
  EXPECT_EQ(clipped_first.reward(), 10 + 15);
  EXPECT_EQ(clipped_last.reward(), 15);
}

TEST(WrapperListTest, AllFaultsAreToldAtOnce) {
  EXPECT_THAT(
      refusal_of<Tally>({"frame_stak=4", "time_limit=x", "grey=2", "blur"}),
      AllOf(HasSubstr("frame_stak=4: there is no wrapper 'frame_stak'; did you mean 'frame_stack'?"),
            HasSubstr("time_limit=x: takes an integer from 1 to 2147483647"),
            HasSubstr("grey=2: takes no value; write grey"), HasSubstr("blur: there is no wrapper 'blur'; there")));
}

TEST(WrapperListTest, WhatDoesNotFitIsToldWithItsPlace) {
  EXPECT_THAT(refusal_of<Tally>({"flatten", "grey"}), HasSubstr("grey, behind flatten: leaf 'obs' is float32[3]"));
  EXPECT_THAT(refusal_of<Tally>({"frame_stack=2@left"}), HasSubstr("no observation leaf 'left'; there are obs"));
  EXPECT_THAT(refusal_of<Tally>({"time_limit=3@obs"}), HasSubstr("not about one leaf"));
  EXPECT_THAT(refusal_of<Tally>({"reward_scale=2:max"}), HasSubstr("no word behind its value, and there is 'max'"));
}

TEST(WrapperListTest, ARegistryKeepsWhatIsWithin) {
  EnvRegistry environments;
  environments.add<Tally>();
  environments.set_wrappers("Tally-v0", {"frame_stack=2", "reward_clip=1"});
  EXPECT_THAT(environments.spec("Tally-v0").observation.front().shape, ElementsAre(2, 3));
  EXPECT_THAT(environments.inner_spec("Tally-v0").observation.front().shape, ElementsAre(3));
  EXPECT_EQ(environments.make("Tally-v0", 3)->spec().observation, environments.spec("Tally-v0").observation);
  int made = 0;
  const auto make = environments.with_wrappers("Tally-v0", [&made](int count) {
    made = count;
    return std::make_unique<EnvGroupOf<Tally>>(count);
  });
  EXPECT_EQ(make(5)->spec().metrics.size(), 2U);
  EXPECT_EQ(made, 5);
}

TEST(WrapperListTest, SeveralAgentsAreRefused) {
  EnvRegistry environments = EnvRegistry::native();
  environments.set_wrappers("KuhnPoker-v0", {});
  try {
    environments.set_wrappers("KuhnPoker-v0", {"reward_clip=1"});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'KuhnPoker-v0' has several agents, and wrappers are for environments of one"));
  }
  EXPECT_THROW(environments.set_wrappers("KuhnPokr-v0", {}), ConfigError);
}

TEST(WrapperListTest, EveryWrapperIsListedWithAHelp) {
  for (const WrapperInfo& wrapper : known_wrappers()) EXPECT_FALSE(wrapper.help.empty()) << wrapper.name;
}

// Only a wrapper that leaves observations as they are, and the steps that they are of, keeps the stacks within it.
TEST(WrapperListTest, StacksOfFramesAreToldWhereTheyCanBeReliedOn) {
  const auto stacks = [](const std::vector<std::string>& texts) {
    return WrapperChain(EnvRegistry::native().spec("Pendulum-v1"), texts).frame_stacks();
  };
  EXPECT_TRUE(stacks({}).empty());
  EXPECT_TRUE(stacks({"reward_clip=sign"}).empty());
  const FrameStacks four{{.frames = 4, .padding = StackPadding::kFirst}};
  EXPECT_EQ(stacks({"frame_stack=4"}), four);
  EXPECT_EQ(stacks({"frame_skip=2", "frame_stack=4", "sticky_actions=0.1", "rescale_action", "time_limit=50",
                    "reward_scale=0.5", "reward_clip=sign"}),
            four);
  EXPECT_EQ(stacks({"frame_stack=4", "frame_stack=3:zero"}),
            (FrameStacks{{.frames = 3, .padding = StackPadding::kZero}}));
  EXPECT_TRUE(stacks({"frame_stack=4", "frame_skip=2"}).empty());
  EXPECT_TRUE(stacks({"frame_stack=4", "flatten"}).empty());
}

}  // namespace
}  // namespace tandem::rl
