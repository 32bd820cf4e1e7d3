#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/rl/env/native/classic_group.h"
#include "tandem/rl/env/testing/tally.h"
#include "tandem/rl/env/testing/wrapped_envs.h"

namespace tandem::rl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::refusal_of;
using testing::Tally;
using testing::Wrapped;

TEST(TimeLimitTest, CutsEpisodesShortAndShowsTheirLastMoment) {
  Wrapped<Tally> tally({"time_limit=3"}, 2);
  EXPECT_EQ(tally.group().spec().max_episode_steps, 3);
  tally.step({0, 0});
  tally.step({0, 4});  // the second one ends by itself, and begins to count anew
  EXPECT_FALSE(tally.truncated(0));
  EXPECT_TRUE(tally.terminated(1));
  tally.step({2, 0});
  EXPECT_TRUE(tally.truncated(0));
  EXPECT_FALSE(tally.terminated(0));
  EXPECT_FALSE(tally.truncated(1));
  EXPECT_THAT(tally.last_seen(0), ElementsAre(0, 3, 2));
  EXPECT_THAT(tally.seen(0), ElementsAre(1, 0, -1));
  EXPECT_EQ(tally.buffers().metrics(0)[0], 3) << "metrics are those of the episode";
}

TEST(TimeLimitTest, BothEndsMayFallOnOneStep) {
  Wrapped<Tally> tally({"time_limit=2"});
  tally.step(0);
  tally.step(4);
  EXPECT_TRUE(tally.terminated());
  EXPECT_TRUE(tally.truncated());
}

// As gymnasium's TimeLimit, whose reset() goes on with the environment's generator.
TEST(TimeLimitTest, LaterEpisodesDrawFromTheSameGenerator) {
  const auto start_of_second = [](EnvGroup& group, int steps) {
    EnvBuffers buffers(group);
    const std::uint64_t seed = 3;
    group.reset({&seed, 1}, buffers.arrays());
    for (int i = 0; i < steps; ++i) {
      const std::int64_t action = 0;
      group.step({.discrete = &action}, buffers.arrays());
    }
    const auto row = buffers.observation<float>(0);
    return std::vector<float>(row.begin(), row.end());
  };
  const auto cartpole = make_cartpole(1);
  const auto limited = WrapperChain(cartpole->spec(), {"time_limit=4"}).make(make_cartpole, 1);
  int length = 0;  // of an episode of pushes to the left
  for (EnvBuffers buffers(*cartpole); buffers.terminated()[0] == 0; ++length) {
    const std::uint64_t seed = 3;
    if (length == 0) cartpole->reset({&seed, 1}, buffers.arrays());
    const std::int64_t action = 0;
    cartpole->step({.discrete = &action}, buffers.arrays());
  }
  EXPECT_EQ(start_of_second(*limited, 4), start_of_second(*cartpole, length));
}

// A group that can neither let environments rest nor end episodes.
struct Plain final : testing::WrappedEnvs {
  explicit Plain(int count) : WrappedEnvs(std::make_unique<EnvGroupOf<Tally>>(count)) {}
};

TEST(TimeLimitTest, AnEnvironmentThatCannotBeEndedIsResetWithASeedOfItsOwn) {
  const WrapperChain chain(Plain(1).spec(), {"time_limit=3"});
  const auto make = [](int count) { return std::make_unique<Plain>(count); };
  const auto group = chain.make(make, 2);
  EnvBuffers buffers(*group);
  const std::vector<std::uint64_t> seeds{7, 8};
  group->reset(seeds, buffers.arrays());
  std::vector<int> ends;
  group->watch_ends([&](int env) { ends.push_back(env); });
  for (int step = 0; step < 3; ++step) {
    const std::vector<std::int64_t> actions{step, step == 1 ? 4 : 0};
    group->step({.discrete = actions.data()}, buffers.arrays());
  }
  EXPECT_EQ(buffers.truncated()[0], 1);
  EXPECT_EQ(buffers.truncated()[1], 0) << "it began its second episode a step ago";
  EXPECT_THAT(buffers.final_observation<float>(0), ElementsAre(0, 3, 2));
  EXPECT_TRUE(std::isnan(buffers.metrics(0)[0]));
  EXPECT_THAT(ends, ElementsAre(0)) << "WrappedEnvs tells of no ends, so this is the one that was cut";
}

TEST(TimeLimitTest, ALimitThatWouldNeverBeReachedIsRefused) {
  EXPECT_THAT(refusal_of<Tally>({"time_limit=101"}), HasSubstr("after 100 steps already"));
  EXPECT_EQ(refusal_of<Tally>({"time_limit=100"}), "");
  EXPECT_THAT(refusal_of<Tally>({"time_limit=0"}), HasSubstr("an integer from 1"));
}

}  // namespace
}  // namespace tandem::rl
