#include "tandem/rl/env/native/classic_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "tandem/base/error.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/testing/walk.h"

namespace tandem::rl {
namespace {

using testing::row;

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

std::vector<std::uint64_t> seeds_from(std::uint64_t first, int count) {
  std::vector<std::uint64_t> seeds(static_cast<std::size_t>(count));
  std::iota(seeds.begin(), seeds.end(), first);
  return seeds;
}

// Actions that vary over environments and steps, of either kind.
class Player {
 public:
  explicit Player(const EnvGroup& group)
      : spec_(group.spec()), discrete_(static_cast<std::size_t>(group.size())), box_(discrete_.size()) {}

  EnvActions next() {
    ++step_;
    const auto* choice = std::get_if<Discrete>(&spec_.action);
    for (std::size_t e = 0; e < discrete_.size(); ++e) {
      const auto number = static_cast<std::int64_t>((e * 7 + step_ * 5 + step_ * step_ / 3) % 11);
      if (choice != nullptr) discrete_[e] = number % choice->n;
      box_[e] = static_cast<float>(number - 5) / 2.0f;
    }
    return choice != nullptr ? EnvActions{.discrete = discrete_.data()} : EnvActions{.box = box_.data()};
  }

 private:
  const Spec spec_;
  std::vector<std::int64_t> discrete_;
  std::vector<float> box_;
  std::size_t step_ = 0;
};

// What gymnasium 1.4.0 gives for seed 42: the start, and observation, state and reward after three actions.
struct Golden {
  std::function<std::unique_ptr<ClassicGroup>(int)> make;
  const char* id;
  std::vector<float> actions;
  std::vector<float> start, observation;
  std::vector<double> state;
  double reward;
};

const std::vector<Golden>& goldens() {
  static const std::vector<Golden> all = {
      {make_cartpole,
       "CartPole-v1",
       {1, 0, 1},
       {0x1.c0d97ep-6f, -0x1.9090f6p-8f, 0x1.25c37p-5f, 0x1.435e26p-6f},
       {0x1.fa4444p-6f, 0x1.800b0cp-3f, 0x1.052004p-5f, -0x1.ec0dacp-3f},
       {0x1.fa44432323657p-6, 0x1.800b0c803c400p-3, 0x1.052003ed75bc7p-5, -0x1.ec0dab427dd8ep-3},
       1.0},
      {make_acrobot,
       "Acrobot-v1",
       {0, 2, 2},
       {0x1.ff3b4ep-1f, 0x1.c0a002p-5f, 0x1.fff634p-1f, -0x1.908e68p-7f, 0x1.25c37p-4f, 0x1.435e26p-5f},
       {0x1.ffc2cp-1f, 0x1.f4d2fep-6f, 0x1.ff2568p-1f, 0x1.d8eba4p-5f, -0x1.4a54e2p-2f, 0x1.44d2fcp-1f},
       {0x1.f4e6f85ecfef0p-6, 0x1.d92efda4c1244p-5, -0x1.4a54e21565106p-2, 0x1.44d2fbdd67ed3p-1},
       -1.0},
      {make_mountain_car,
       "MountainCar-v0",
       {0, 1, 2},
       {-0x1.c7e4dp-2f, 0.0f},
       {-0x1.cd781ep-2f, -0x1.bfeed2p-10f},
       {-0x1.cd781e9689c9fp-2, -0x1.bfeed2962c011p-10},
       -1.0},
      {make_mountain_car_continuous,
       "MountainCarContinuous-v0",
       {0.3f, -1.5f, 1.0f},
       {-0x1.c7e4dp-2f, 0.0f},
       {-0x1.cb9b5ep-2f, -0x1.4f6786p-10f},
       {-0x1.cb9b5ep-2, -0x1.4f6786p-10},
       -0.1},
      {make_pendulum,
       "Pendulum-v1",
       {0.7f, -2.5f, 2.0f},
       {-0x1.331a54p-3f, 0x1.fa35fep-1f, -0x1.f4b534p-4f},
       {-0x1.6333e4p-2f, 0x1.e035cap-1f, 0x1.182d2ep+1f},
       {0x1.eccf2e2ff90f8p+0, 0x1.182d2d43900c6p+1},
       -0x1.b7b56511a965bp+1},
  };
  return all;
}

class ClassicGroupTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  const Golden& golden() const { return goldens()[GetParam()]; }
};

INSTANTIATE_TEST_SUITE_P(Every, ClassicGroupTest, ::testing::Range<std::size_t>(0, goldens().size()),
                         [](const auto& tested) {
                           std::string name = goldens()[tested.param].id;
                           name.erase(name.find('-'));
                           return name;
                         });

TEST_P(ClassicGroupTest, StartsAndStepsAsGymnasiumDoes) {
  const auto group = golden().make(1);
  EnvBuffers buffers(*group);
  EXPECT_EQ(group->spec().id, golden().id);
  check_spec(group->spec());
  group->reset(std::vector<std::uint64_t>{42}, buffers.arrays());
  EXPECT_THAT(row(buffers, 0), ElementsAreArray(golden().start));
  for (const float action : golden().actions) {
    const auto choice = static_cast<std::int64_t>(action);
    group->step({.discrete = &choice, .box = &action}, buffers.arrays());
  }
  EXPECT_THAT(row(buffers, 0), ElementsAreArray(golden().observation));
  EXPECT_THAT(group->state(0), ElementsAreArray(golden().state));
  EXPECT_NEAR(buffers.reward()[0], golden().reward, 1e-9);
}

// Vector instructions work on several environments at once; a row must not depend on its neighbours or its place.
TEST_P(ClassicGroupTest, AGroupStepsAsItsEnvironmentsDoAlone) {
  constexpr int kCount = 13;
  const auto together = golden().make(kCount);
  EnvBuffers all(*together);
  together->reset(seeds_from(5, kCount), all.arrays());
  std::vector<std::vector<float>> rows;
  std::vector<double> rewards;
  Player player(*together);
  for (int step = 0; step < 700; ++step) {
    together->step(player.next(), all.arrays());
    for (std::size_t e = 0; e < kCount; ++e) rows.push_back(row(all, e));
    rewards.insert(rewards.end(), all.reward().begin(), all.reward().end());
  }
  for (std::size_t e = 0; e < kCount; ++e) {
    const auto alone = golden().make(1);
    EnvBuffers one(*alone);
    alone->reset(std::vector<std::uint64_t>{5 + e}, one.arrays());
    Player same(*together);
    for (std::size_t step = 0; step < 700; ++step) {
      const EnvActions actions = same.next();
      alone->step({.discrete = actions.discrete == nullptr ? nullptr : actions.discrete + e,
                   .box = actions.box == nullptr ? nullptr : actions.box + e},
                  one.arrays());
      ASSERT_THAT(row(one, 0), ElementsAreArray(rows[step * kCount + e])) << "environment " << e << ", step " << step;
      ASSERT_EQ(one.reward()[0], rewards[step * kCount + e]);
    }
  }
}

TEST_P(ClassicGroupTest, AnEndedEpisodeShowsItsLastObservationAndStartsAnewInTheSameStep) {
  const auto group = golden().make(3);
  EnvBuffers buffers(*group);
  group->reset(seeds_from(1, 3), buffers.arrays());
  NumpyGenerator random(2);  // the stream of environment 1, whose second episode is expected below
  const std::vector<double> first = group->state(1);
  const int limit = group->spec().max_episode_steps;
  group->set_state(1, first, limit - 1);
  const std::vector<float> before = row(buffers, 1);
  Player player(*group);
  group->step(player.next(), buffers.arrays());
  EXPECT_THAT(buffers.truncated(), ::testing::ElementsAre(0, 1, 0));
  EXPECT_THAT(buffers.terminated(), ::testing::ElementsAre(0, 0, 0));
  // The last observation is one step away from the first: close to it, but not it. Untouched rows stay zero.
  const auto last = buffers.final_observation<float>(1);
  EXPECT_NE(std::vector<float>(last.begin(), last.end()), before);
  EXPECT_NEAR(last[0], before[0], 0.2);
  EXPECT_THAT(buffers.final_observation<float>(0), ::testing::Each(0.0f));
  EXPECT_THAT(buffers.final_observation<float>(2), ::testing::Each(0.0f));
  // The new episode comes from the same stream, with its whole time limit before it.
  EXPECT_NE(group->state(1), first);
  EXPECT_NE(row(buffers, 1), std::vector<float>(last.begin(), last.end()));
  const auto fresh = golden().make(1);
  EnvBuffers other(*fresh);
  fresh->reset(std::vector<std::uint64_t>{2}, other.arrays());
  fresh->set_state(0, fresh->state(0), limit - 1);
  Player again(*fresh);
  fresh->step(again.next(), other.arrays());
  EXPECT_EQ(group->state(1), fresh->state(0));
  group->step(player.next(), buffers.arrays());
  EXPECT_EQ(buffers.truncated()[1], 0);
}

TEST_P(ClassicGroupTest, TheTimeLimitEndsAnEpisodeAtItsLastStepAndNotBefore) {
  const auto group = golden().make(1);
  EnvBuffers buffers(*group);
  group->reset(std::vector<std::uint64_t>{3}, buffers.arrays());
  const std::vector<double> start = group->state(0);
  Player player(*group);
  group->set_state(0, start, group->spec().max_episode_steps - 2);
  group->step(player.next(), buffers.arrays());
  EXPECT_EQ(buffers.truncated()[0], 0);
  group->step(player.next(), buffers.arrays());
  EXPECT_EQ(buffers.truncated()[0], 1);
}

TEST_P(ClassicGroupTest, ASavedStateContinuesToTheLastBit) {
  for (const int before : {0, 1, 230}) {  // 0: right after a reset, which some environments show differently
    const auto group = golden().make(4);
    EnvBuffers buffers(*group);
    group->reset(seeds_from(9, 4), buffers.arrays());
    Player player(*group);
    for (int step = 0; step < before; ++step) group->step(player.next(), buffers.arrays());
    const std::vector<std::byte> saved = group->save();
    const auto other = golden().make(4);
    EnvBuffers others(*other);
    other->load(saved, others.arrays());
    for (std::size_t e = 0; e < 4; ++e) ASSERT_EQ(row(others, e), row(buffers, e)) << before << " steps";
    for (int step = 0; step < 600; ++step) {
      const EnvActions actions = player.next();
      group->step(actions, buffers.arrays());
      other->step(actions, others.arrays());
      for (std::size_t e = 0; e < 4; ++e) ASSERT_EQ(row(others, e), row(buffers, e));
      ASSERT_THAT(others.truncated(), ElementsAreArray(buffers.truncated()));
    }
    EXPECT_EQ(other->save(), group->save());
  }
}

TEST_P(ClassicGroupTest, AStateThatIsNotItsOwnIsRefused) {
  const auto group = golden().make(2);
  EnvBuffers buffers(*group);
  group->reset(seeds_from(1, 2), buffers.arrays());
  const std::vector<std::byte> saved = group->save();
  const auto refuse = [&](std::vector<std::byte> bytes, const char* reason) {
    try {
      group->load(bytes, buffers.arrays());
      FAIL() << "loaded; expected: " << reason;
    } catch (const CheckpointError& error) {
      EXPECT_THAT(error.what(), HasSubstr(reason));
      EXPECT_THAT(error.what(), HasSubstr(golden().id));
    }
  };
  for (std::size_t length = 0; length < saved.size(); length += 5) {
    refuse({saved.begin(), saved.begin() + static_cast<std::ptrdiff_t>(length)}, "bytes too early");
  }
  std::vector<std::byte> longer = saved;
  longer.push_back(std::byte{0});
  refuse(longer, "1 bytes are left over");
  std::vector<std::byte> newer = saved;
  newer[0] = std::byte{9};
  refuse(newer, "its format is 9");
  std::vector<std::byte> foreign = saved;
  foreign[12] = std::byte{'X'};
  refuse(foreign, "its environment is 'X");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto nan_bytes = std::as_bytes(std::span(&nan, 1));
  std::vector<std::byte> broken(saved.begin(), saved.end() - sizeof(nan));
  broken.insert(broken.end(), nan_bytes.begin(), nan_bytes.end());
  refuse(broken, "of environment 1 is nan");
  const std::size_t state_bytes = group->state(1).size() * sizeof(double);
  std::vector<std::byte> late = saved;
  late[saved.size() - state_bytes - 2] = std::byte{1};  // the third byte of environment 1's elapsed steps
  refuse(late, "environment 1 is 65536 steps into an episode of at most");
  const auto smaller = golden().make(1);
  EnvBuffers one(*smaller);
  smaller->reset(seeds_from(1, 1), one.arrays());
  refuse(smaller->save(), "its number of environments is 1 and must be 2");
}

TEST_P(ClassicGroupTest, AnActionOutsideItsSpaceIsAnErrorThatNamesTheEnvironment) {
  const auto group = golden().make(3);
  EnvBuffers buffers(*group);
  group->reset(seeds_from(1, 3), buffers.arrays());
  const std::vector<std::byte> before = group->save();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const bool discrete = std::holds_alternative<Discrete>(group->spec().action);
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{3}}) {
    const std::vector<std::int64_t> choices = {0, 1, wrong};
    const std::vector<float> forces = {0, 1, wrong < 0 ? nan : std::numeric_limits<float>::infinity()};
    try {
      group->step(discrete ? EnvActions{.discrete = choices.data()} : EnvActions{.box = forces.data()},
                  buffers.arrays());
      FAIL() << "stepped with action " << wrong;
    } catch (const EnvError& error) {
      EXPECT_THAT(error.what(), HasSubstr("environment 2 was given"));
    }
  }
  EXPECT_EQ(group->save(), before) << "a refused action must not move anything";
}

TEST_P(ClassicGroupTest, AnEmptyGroupIsAConfigurationError) {
  EXPECT_THROW(golden().make(0), ConfigError);
  EXPECT_THROW(golden().make(-4), ConfigError);
}

TEST(CartPoleTest, ATaskCanEndOnTheLastStepOfItsTimeLimit) {
  const auto group = make_cartpole(1);
  EnvBuffers buffers(*group);
  group->reset(std::vector<std::uint64_t>{1}, buffers.arrays());
  group->set_state(0, std::vector<double>{2.39, 3.0, 0.0, 0.0}, 499);
  const std::int64_t right = 1;
  group->step({.discrete = &right}, buffers.arrays());
  EXPECT_EQ(buffers.terminated()[0], 1);
  EXPECT_EQ(buffers.truncated()[0], 1);
  EXPECT_EQ(buffers.reward()[0], 1.0);
  EXPECT_FLOAT_EQ(buffers.final_observation<float>(0)[0], 2.45f);
}

TEST(MountainCarTest, TheFlagEndsTheTask) {
  for (const auto& make : {make_mountain_car, make_mountain_car_continuous}) {
    const auto group = make(1);
    EnvBuffers buffers(*group);
    group->reset(std::vector<std::uint64_t>{1}, buffers.arrays());
    group->set_state(0, std::vector<double>{0.49, 0.05}, 7);
    const std::int64_t right = 2;
    const float push = 1.0f;
    const bool discrete = std::holds_alternative<Discrete>(group->spec().action);
    group->step(discrete ? EnvActions{.discrete = &right} : EnvActions{.box = &push}, buffers.arrays());
    EXPECT_EQ(buffers.terminated()[0], 1) << group->spec().id;
    EXPECT_DOUBLE_EQ(buffers.reward()[0], discrete ? -1.0 : 99.9) << group->spec().id;
  }
}

}  // namespace
}  // namespace tandem::rl
