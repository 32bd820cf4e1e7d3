#include "tandem/rl/env/native/multi_agent_cartpole.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/rl/env/testing/agent_buffers.h"

namespace tandem::rl {
namespace {

using testing::AgentBuffers;
using ::testing::ElementsAre;
using testing::step;

constexpr std::size_t kCarts = MultiAgentCartPole::kCarts;

// Pushes that let carts fall at different times: cart k keeps its pole up in its first 5 * k steps.
std::int64_t push(std::size_t cart, int time, const std::vector<float>& seen) {
  if (time < 5 * static_cast<int>(cart)) return seen[2] + seen[3] > 0 ? 1 : 0;
  return 1;
}

TEST(MultiAgentCartPoleTest, EveryAgentsTaskIsCartPoleToTheBit) {
  constexpr std::uint64_t kSeed = 11;
  MultiAgentGroupOf<MultiAgentCartPole> group(1);
  AgentBuffers buffers(group);
  group.reset(std::vector{kSeed}, buffers.arrays);
  NumpyGenerator random(kSeed);
  std::vector<std::uint64_t> seeds;
  for (std::size_t cart = 0; cart < kCarts; ++cart) seeds.push_back(random.next_uint64());
  const auto alone = make_cartpole(kCarts);
  EnvBuffers expected(*alone);
  alone->reset(seeds, expected.arrays());
  std::array<bool, kCarts> out_of_game{};
  std::vector<int> ends;
  for (int time = 0; ends.size() < kCarts; ++time) {
    std::vector<std::vector<std::int64_t>> choices;
    std::vector<std::int64_t> flat;
    for (std::size_t cart = 0; cart < kCarts; ++cart) {
      ASSERT_EQ(buffers.agents[cart]->acts[0], out_of_game[cart] ? 0 : 1);
      flat.push_back(push(cart, time, buffers.seen(cart)));
      choices.push_back({flat.back()});
    }
    step(group, buffers, choices);
    alone->step({.discrete = flat.data()}, expected.arrays());
    for (std::size_t cart = 0; cart < kCarts; ++cart) {
      const auto& its = *buffers.agents[cart];
      if (out_of_game[cart]) {
        EXPECT_EQ(its.reward[0], 0) << "it waits for the others";
        EXPECT_EQ(its.terminated[0] | its.truncated[0], 0);
        continue;
      }
      EXPECT_EQ(its.reward[0], 1);
      ASSERT_EQ(its.terminated[0], expected.terminated()[cart]);
      const auto row =
          its.terminated[0] != 0 ? expected.final_observation<float>(cart) : expected.observation<float>(cart);
      const std::vector<float> seen = its.terminated[0] != 0 ? buffers.last_seen(cart) : buffers.seen(cart);
      ASSERT_EQ(seen, std::vector<float>(row.begin(), row.end())) << "cart " << cart << ", step " << time;
      if (its.terminated[0] == 0) continue;
      out_of_game[cart] = true;
      ends.push_back(time);
    }
  }
  EXPECT_LT(ends.front(), ends.back());
  for (const auto& agent : buffers.agents) EXPECT_EQ(agent->acts[0], 1) << "the next episode has begun";
}

TEST(MultiAgentCartPoleTest, TheTimeLimitCutsShortThoseInTheGameAlone) {
  MultiAgentGroupOf<MultiAgentCartPole> group(1);
  AgentBuffers buffers(group);
  group.reset(std::vector<std::uint64_t>{1}, buffers.arrays);
  for (int time = 0; time < 500; ++time) {
    std::vector<std::vector<std::int64_t>> choices;
    for (std::size_t cart = 0; cart < kCarts; ++cart) {
      const std::vector<float> s = buffers.seen(cart);
      choices.push_back({cart == 3 ? 1 : (s[2] + 0.5 * s[3] + 0.05 * s[0] + 0.1 * s[1] > 0 ? 1 : 0)});
    }
    step(group, buffers, choices);
  }
  for (std::size_t cart = 0; cart < kCarts; ++cart) {
    EXPECT_EQ(buffers.agents[cart]->truncated[0], cart == 3 ? 0 : 1) << cart;
    EXPECT_EQ(buffers.agents[cart]->terminated[0], 0) << cart;
  }
  EXPECT_THAT(buffers.last_seen(0), ::testing::Not(ElementsAre(0, 0, 0, 0)));
  EXPECT_NE(buffers.last_seen(0), buffers.seen(0)) << "the new episode's";
}

TEST(MultiAgentCartPoleTest, ASavedGroupGoesOnThroughEnds) {
  MultiAgentGroupOf<MultiAgentCartPole> group(2), other(2);
  AgentBuffers buffers(group), others(other);
  group.reset(std::vector<std::uint64_t>{1, 2}, buffers.arrays);
  const std::vector<std::vector<std::int64_t>> right(kCarts, {1, 1});
  for (int i = 0; i < 9; ++i) step(group, buffers, right);
  other.load(group.save(), others.arrays);
  for (int i = 0; i < 30; ++i) {
    for (std::size_t cart = 0; cart < kCarts; ++cart) {
      ASSERT_EQ(others.agents[cart]->acts, buffers.agents[cart]->acts) << i;
      for (std::size_t env = 0; env < 2; ++env) {
        if (buffers.agents[cart]->acts[env] == 0) continue;
        ASSERT_EQ(others.seen(cart, env), buffers.seen(cart, env)) << i;
      }
    }
    step(group, buffers, right);
    step(other, others, right);
  }
}

}  // namespace
}  // namespace tandem::rl
