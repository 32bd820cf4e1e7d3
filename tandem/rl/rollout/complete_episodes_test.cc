#include "tandem/rl/rollout/complete_episodes.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/rl/env/env_adapter.h"
#include "tandem/rl/env/numpy_random.h"

namespace tandem::rl {
namespace {

constexpr int kLongest = 9, kAskedFor = 12, kGroup = 4;

// Episodes of 1 to kLongest steps: shows which episode it is, of how many steps, and the number of the step.
struct Stairs {
  static Spec spec() {
    return {.id = "Stairs-v0",
            .observation = {{.name = "obs", .shape = {3}}},
            .action = Discrete{2},
            .max_episode_steps = kLongest};
  }
  using Shown = std::vector<float>;

  Shown reset(NumpyGenerator& random) {
    episode = static_cast<float>(random.integers(0, 1 << 20));
    length = static_cast<int>(random.integers(1, kLongest + 1));
    step_number = 0;
    return shown();
  }
  StepResult<Shown> step(std::int64_t) {
    ++step_number;
    return {shown(), static_cast<double>(step_number), step_number == length};
  }
  Shown shown() const { return {episode, static_cast<float>(length), static_cast<float>(step_number)}; }

  float episode = 0;
  int length = 1, step_number = 0;
};

// Of observations, so that a row shows whether its parts belong together.
class EchoActor final : public Actor {
 public:
  void refresh() override {}
  void act(const std::vector<at::Tensor>& observation, const at::Tensor&, const Decisions& out) override {
    evaluate(observation, {}, out.value);
    for (int row = 0; row < kGroup; ++row) {
      out.discrete[row] = static_cast<std::int64_t>(out.value[row]) % 2;
      out.log_prob[row] = -out.value[row];
    }
  }
  void episodes_ended(std::span<const std::uint8_t>) override {}
  void evaluate(const std::vector<at::Tensor>& observation, const at::Tensor&, float* value) override {
    const at::Tensor shown = observation[0].contiguous();
    for (std::int64_t row = 0; row < shown.size(0); ++row)
      value[row] = shown[row][0].item<float>() + 2 * shown[row][2].item<float>();
  }
  [[nodiscard]] std::vector<std::byte> save() const override { return {}; }
  void load(std::span<const std::byte>) override {}
};

struct StairsRollouts {
  StairsRollouts()
      : worker(std::make_unique<EnvGroupOf<Stairs>>(kGroup), std::make_unique<EchoActor>(),
               {.steps = CompleteEpisodes::most_steps(Stairs::spec(), kAskedFor), .normalizer = {}}, 6, kAskedFor, 1) {}
  const Fragment& collect(std::int64_t update) {
    worker.sample(update, {&normalizers, 1});
    EXPECT_EQ(worker.rows_made(), worker.fragment(0).steps);
    return worker.fragment(0);
  }
  Normalizers normalizers{Stairs::spec(), {}};
  CompleteEpisodes worker;
};

// By episode, in the order of the fragment.
struct Played {
  float episode;
  int steps;
};

std::vector<Played> played(const Fragment& fragment) {
  std::vector<Played> all;
  int number = 0;
  for (int t = 0; t < fragment.steps; ++t) {
    const at::Tensor shown = fragment.observation[0][t][0];
    if (number == 0) all.push_back({shown[0].item<float>(), 0});
    EXPECT_EQ(shown[0].item<float>(), all.back().episode) << t;
    EXPECT_EQ(shown[2].item<int>(), number) << t;
    ++number;
    const float value = shown[0].item<float>() + 2 * shown[2].item<float>();
    EXPECT_EQ(fragment.value[t][0].item<float>(), value) << t;
    EXPECT_EQ(fragment.log_prob[t][0].item<float>(), -value) << t;
    EXPECT_EQ(fragment.action[t][0].item<int>(), static_cast<std::int64_t>(value) % 2) << t;
    EXPECT_EQ(fragment.reward[t][0].item<int>(), number) << t;
    const bool ends = number == shown[1].item<int>();
    EXPECT_EQ(fragment.done[t][0].item<int>(), ends ? 1 : 0) << t;
    all.back().steps = number;
    if (ends) number = 0;
  }
  EXPECT_EQ(number, 0) << "the last episode is not complete";
  return all;
}

// Of each environment: as many as it needs to make kAskedFor steps, and no more.
void expect_no_more_than_asked_for(const std::vector<Played>& all) {
  int envs = 0, made = 0;
  for (const Played& its : all) {
    made += its.steps;
    if (made < kAskedFor) continue;
    made = 0;
    ++envs;
  }
  EXPECT_EQ(envs, kGroup);
  EXPECT_EQ(made, 0);
}

TEST(CompleteEpisodesTest, AFragmentHasTheEpisodesOfOneEnvironmentBehindThoseOfAnother) {
  StairsRollouts world;
  for (int update = 0; update < 20; ++update) {
    const Fragment& fragment = world.collect(update);
    ASSERT_EQ(fragment.rows, 1);
    expect_no_more_than_asked_for(played(fragment));
  }
}

TEST(CompleteEpisodesTest, ReturnsAreThoseOfTheEpisodesInTheFragment) {
  StairsRollouts world;
  for (int update = 0; update < 20; ++update) {
    std::vector<Played> expected = played(world.collect(update));
    std::vector<Episode> told = world.worker.episodes().finished();
    std::stable_sort(told.begin(), told.end(), [](const Episode& a, const Episode& b) { return a.row < b.row; });
    ASSERT_EQ(told.size(), expected.size());
    for (std::size_t i = 0; i < told.size(); ++i) {
      EXPECT_EQ(told[i].length, expected[i].steps);
      EXPECT_EQ(told[i].episode_return, expected[i].steps * (expected[i].steps + 1) / 2);
    }
  }
}

TEST(CompleteEpisodesTest, WhatAnUpdateSamplesDoesNotDependOnThoseBefore) {
  StairsRollouts first, second;
  for (int update = 0; update < 3; ++update) (void)first.collect(update);
  const Fragment& expected = first.worker.fragment(0);
  const Fragment& found = second.collect(2);
  ASSERT_EQ(found.steps, expected.steps);
  EXPECT_TRUE(at::equal(found.made(found.observation[0]), expected.made(expected.observation[0])));
  const std::vector<Played> of_two = played(found), of_three = played(second.collect(3));
  EXPECT_NE(of_two.front().episode, of_three.front().episode);
}

TEST(CompleteEpisodesTest, AGroupThatRestsHasAFragmentWithoutSteps) {
  StairsRollouts world;
  (void)world.collect(0);
  world.worker.rest();
  EXPECT_EQ(world.worker.fragment(0).steps, 0);
}

TEST(CompleteEpisodesTest, EpisodesWithoutATimeLimitAreRefused) {
  Spec spec = Stairs::spec();
  spec.max_episode_steps = 0;
  try {
    (void)CompleteEpisodes::most_steps(spec, kAskedFor);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the episodes of Stairs-v0 have no time limit"));
  }
}

}  // namespace
}  // namespace tandem::rl
