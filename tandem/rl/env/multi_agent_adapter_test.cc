#include "tandem/rl/env/multi_agent_adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/testing/agent_buffers.h"

namespace tandem::rl {
namespace {

using testing::AgentBuffers;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A counts to what it chooses, B, which is moved by two numbers, watches. Choices of A from 1 on do something odd.
struct Pair {
  static MultiAgentSpec spec() {
    return {.id = "Pair-v0",
            .agents = {{.name = "a", .observation = {{.shape = {1}}}, .action = Discrete{8}},
                       {.name = "b", .observation = {{.shape = {2}}}, .action = Box{{-1, -1}, {1, 1}}}},
            .max_episode_steps = 4};
  }
  void reset(NumpyGenerator& /*random*/) { time = 0; }
  void step(std::span<const AgentAction> actions, std::span<AgentOutcome> outcomes) {
    ++time;
    if (!actions[1].box.empty()) moved = {actions[1].box[0], actions[1].box[1]};
    const std::int64_t choice = actions[0].discrete.empty() ? 0 : actions[0].discrete.front();
    outcomes[0].reward = choice == 1 ? std::numeric_limits<double>::infinity() : 1;
    outcomes[1].reward = moved[1];
    if (choice == 2) throw std::runtime_error("out of paper");
    if (choice == 3) outcomes[1].terminated = true;
    nobody = choice == 4;
    wide = choice == 5;
    if (choice == 6) outcomes[0].truncated = outcomes[1].terminated = true;
  }
  std::vector<float> observe(std::size_t agent) const {
    std::vector<float> seen(agent + 1, static_cast<float>(time));
    if (wide) seen.push_back(0);
    return seen;
  }
  bool acts(std::size_t /*agent*/) const { return !nobody; }

  int time = 0;
  bool nobody = false, wide = false;
  std::array<float, 2> moved{};
};

struct PairGroup {
  PairGroup() { group.reset(std::vector<std::uint64_t>{1}, buffers.arrays); }
  void play(std::int64_t choice, std::array<float, 2> push = {0, 0}) {
    const std::array<EnvActions, 2> actions{EnvActions{.discrete = &choice}, EnvActions{.box = push.data()}};
    group.step(actions, buffers.arrays);
  }
  std::string error_of(std::int64_t choice, std::array<float, 2> push = {0, 0}) {
    try {
      play(choice, push);
    } catch (const EnvError& error) {
      return error.what();
    }
    return "no error";
  }
  MultiAgentGroupOf<Pair> group{1};
  AgentBuffers buffers{group};
};

TEST(MultiAgentAdapterTest, AgentsMayDifferInWhatTheySeeAndDo) {
  PairGroup pair;
  pair.play(0, {0.25F, 0.5F});
  EXPECT_THAT(pair.buffers.seen(0), ElementsAre(1));
  EXPECT_THAT(pair.buffers.seen(1), ElementsAre(1, 1));
  EXPECT_THAT(pair.buffers.agents[0]->reward, ElementsAre(1));
  EXPECT_THAT(pair.buffers.agents[1]->reward, ElementsAre(0.5));
}

TEST(MultiAgentAdapterTest, TheEpisodeEndsWithItsLastAgent) {
  PairGroup pair;
  pair.play(6);
  EXPECT_THAT(pair.buffers.agents[0]->truncated, ElementsAre(1));
  EXPECT_THAT(pair.buffers.agents[1]->terminated, ElementsAre(1));
  EXPECT_THAT(pair.buffers.last_seen(1), ElementsAre(1, 1));
  EXPECT_THAT(pair.buffers.seen(1), ElementsAre(0, 0));
  for (int i = 0; i < 3; ++i) pair.play(0);
  EXPECT_THAT(pair.buffers.agents[0]->truncated, ElementsAre(0)) << "the limit counts from the new episode's begin";
  pair.play(0);
  EXPECT_THAT(pair.buffers.agents[0]->truncated, ElementsAre(1));
  EXPECT_THAT(pair.buffers.seen(0), ElementsAre(0));
}

TEST(MultiAgentAdapterTest, ErrorsNameTheEnvironmentTheStepAndTheAgent) {
  const auto error_of = [](std::int64_t choice, std::array<float, 2> push = {0, 0}) {
    PairGroup pair;
    pair.play(0);
    return pair.error_of(choice, push);
  };
  const std::string place = "Pair-v0: environment 0 of 1 in step 2 of its episode: ";
  EXPECT_EQ(error_of(2), place + "out of paper");
  EXPECT_EQ(error_of(1), place + "the reward of a is inf");
  EXPECT_EQ(error_of(4), place + "no agent acts next, and not all of them have ended");
  EXPECT_THAT(error_of(5), AllOf(HasSubstr(place), HasSubstr("has 2 elements; the spec says 1")));
  EXPECT_THAT(error_of(8), AllOf(HasSubstr(place), HasSubstr("Pair-v0/a"), HasSubstr("action 8")));
  EXPECT_THAT(error_of(0, {std::numeric_limits<float>::quiet_NaN(), 0}), HasSubstr("Pair-v0/b"));
  PairGroup pair;
  pair.play(3);
  EXPECT_THAT(pair.buffers.agents[1]->acts, ElementsAre(0));
  EXPECT_THAT(pair.error_of(3), HasSubstr("b has ended before and is given an outcome"));
}

struct Unmasked : Pair {
  static MultiAgentSpec spec() {
    MultiAgentSpec spec = Pair::spec();
    spec.agents[0].has_action_mask = true;
    spec.agents[1].observation[0].type = ElementType::kInt64;
    return spec;
  }
};

TEST(MultiAgentAdapterTest, WhatStructAndSpecDisagreeInIsSaidBeforeAnyStep) {
  try {
    MultiAgentGroupOf<Unmasked> group(1);
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.faults(), ElementsAre(HasSubstr("Pair-v0/a': has_action_mask is set"), HasSubstr("Pair-v0/b")));
  }
  EXPECT_THROW(MultiAgentGroupOf<Pair>(0), ConfigError);
  MultiAgentSpec spec = Pair::spec();
  spec.agents[1].name = "a";
  spec.agents.push_back({.name = "c/d", .observation = {{.shape = {1}}}, .action = Discrete{1}});
  spec.max_episode_steps = -1;
  EXPECT_THAT(spec_faults(spec), ElementsAre(HasSubstr("max_episode_steps"), HasSubstr("both named 'a'"),
                                             HasSubstr("agent 2 is named 'c/d'")));
}

struct SavedPair : Pair {
  [[nodiscard]] std::array<int, 1> save() const { return {time}; }
  void load(std::span<const std::byte> state) { std::memcpy(&time, state.data(), sizeof time); }
};

TEST(MultiAgentAdapterTest, AStateBeyondTheTimeLimitIsRefused) {
  MultiAgentGroupOf<SavedPair> group(1);
  AgentBuffers buffers(group);
  group.reset(std::vector<std::uint64_t>{1}, buffers.arrays);
  std::vector<std::byte> state = group.save();
  EXPECT_NO_THROW(group.load(state, buffers.arrays));
  // Behind format, id, number of environments and generator: the steps of the episode, of at most 4.
  const std::size_t elapsed_at = 4 + 8 + std::strlen("Pair-v0") + 8 + sizeof(NumpyGenerator::State);
  state[elapsed_at] = std::byte{3};
  EXPECT_NO_THROW(group.load(state, buffers.arrays));
  state[elapsed_at] = std::byte{4};
  EXPECT_THROW(group.load(state, buffers.arrays), CheckpointError);
  state[elapsed_at + 3] = std::byte{0xff};  // with the sign bit: negative
  EXPECT_THROW(group.load(state, buffers.arrays), CheckpointError);
}

TEST(MultiAgentAdapterTest, TheRegistryKnowsThemUnderNamesThatAreNotTakenTwice) {
  EnvRegistry registry = EnvRegistry::native();
  registry.add_multi_agent<Pair>();
  ASSERT_NE(registry.find_multi_agent("Pair-v0"), nullptr);
  EXPECT_EQ(registry.find_multi_agent("Pair-v0")->make(3)->size(), 3);
  EXPECT_EQ(registry.find_multi_agent("KuhnPoker-v0")->origin, "tandem");
  EXPECT_EQ(registry.find_multi_agent("CartPole-v1"), nullptr);
  EXPECT_THROW(registry.add_multi_agent<Pair>(), ConfigError);
  MultiAgentEntry taken = entry_of<Pair>();
  taken.spec.id = "CartPole-v1";
  EXPECT_THROW(registry.add(taken), ConfigError);
  const auto said = [&](const char* id) -> std::string {
    try {
      (void)registry.make(id, 1);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(said("KuhnPoker-v0"), HasSubstr("several agents"));
  EXPECT_THAT(said("kuhnpoker"), HasSubstr("did you mean 'KuhnPoker-v0'?"));
}

}  // namespace
}  // namespace tandem::rl
