#include "tandem/rl/env/native/catch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/rl/env/env_adapter.h"
#include "tandem/rl/env/env_buffers.h"

namespace tandem::rl {
namespace {

constexpr auto kSide = static_cast<std::size_t>(Catch::kSide);
constexpr std::int64_t kLeft = 0, kStay = 1, kRight = 2;

// The column of the only lit cell of a row; kSide when there is none.
std::size_t lit_column(std::span<const std::uint8_t> image, std::size_t row) {
  const auto cells = image.subspan(row * kSide, kSide);
  return static_cast<std::size_t>(std::ranges::find(cells, Catch::kLit) - cells.begin());
}

struct Episode {
  double total = 0;
  std::size_t steps = 0, first_column = 0;
};

// `toward`: the action for the columns of ball and paddle, as the image shows them.
template <typename Toward>
Episode play(EnvGroup& group, EnvBuffers& buffers, const Toward& toward) {
  Episode episode{.first_column = lit_column(buffers.observation<std::uint8_t>(0), 0)};
  do {
    const auto image = buffers.observation<std::uint8_t>(0);
    const std::int64_t action = toward(lit_column(image, episode.steps), lit_column(image, kSide - 1));
    group.step({.discrete = &action}, buffers.arrays());
    episode.total += buffers.reward()[0];
    ++episode.steps;
  } while (buffers.terminated()[0] == 0);
  return episode;
}

TEST(CatchTest, WhoFollowsTheBallCatchesItFromEveryColumn) {
  EnvGroupOf<Catch> group(1);
  EnvBuffers buffers(group);
  group.reset(std::vector<std::uint64_t>{1}, buffers.arrays());
  std::set<std::size_t> columns;
  for (int i = 0; i < 200; ++i) {
    const Episode episode = play(group, buffers, [](std::size_t ball, std::size_t paddle) {
      return ball < paddle ? kLeft : ball > paddle ? kRight : kStay;
    });
    EXPECT_EQ(episode.total, 1);
    EXPECT_EQ(episode.steps, kSide - 1);
    columns.insert(episode.first_column);
  }
  EXPECT_EQ(columns.size(), kSide);
}

TEST(CatchTest, WhoStaysMissesAllButTheBallAbove) {
  EnvGroupOf<Catch> group(1);
  EnvBuffers buffers(group);
  group.reset(std::vector<std::uint64_t>{2}, buffers.arrays());
  for (int i = 0; i < 100; ++i) {
    const Episode episode = play(group, buffers, [](std::size_t, std::size_t) { return kStay; });
    EXPECT_EQ(episode.total, episode.first_column == Catch::kStart ? 1 : -1);
  }
}

TEST(CatchTest, TheImageShowsBallAndPaddleAndTheEdgesStopIt) {
  EnvGroupOf<Catch> group(1);
  EnvBuffers buffers(group);
  group.reset(std::vector<std::uint64_t>{3}, buffers.arrays());
  const std::size_t ball = lit_column(buffers.observation<std::uint8_t>(0), 0);
  for (std::size_t step = 1; step + 1 < kSide; ++step) {
    group.step({.discrete = &kRight}, buffers.arrays());
    const auto image = buffers.observation<std::uint8_t>(0);
    EXPECT_EQ(std::ranges::count(image, Catch::kLit), 2);
    EXPECT_EQ(std::ranges::count(image, 0), std::ssize(image) - 2);
    EXPECT_EQ(lit_column(image, step), ball);
    EXPECT_EQ(lit_column(image, kSide - 1), std::min(kSide / 2 + step, kSide - 1));
  }
}

TEST(CatchTest, EqualSeedsDropEqualBalls) {
  EnvGroupOf<Catch> first(2), second(2);
  EnvBuffers of_first(first), of_second(second);
  first.reset(std::vector<std::uint64_t>{4, 5}, of_first.arrays());
  second.reset(std::vector<std::uint64_t>{4, 6}, of_second.arrays());
  bool differs = false;
  const std::vector<std::int64_t> stay{kStay, kStay};
  for (int step = 0; step < 300; ++step) {
    ASSERT_TRUE(std::ranges::equal(of_first.observation<std::uint8_t>(0), of_second.observation<std::uint8_t>(0)));
    differs |= !std::ranges::equal(of_first.observation<std::uint8_t>(1), of_second.observation<std::uint8_t>(1));
    first.step({.discrete = stay.data()}, of_first.arrays());
    second.step({.discrete = stay.data()}, of_second.arrays());
  }
  EXPECT_TRUE(differs);
}

TEST(CatchTest, ASavedGroupGoesOnWhereItWas) {
  EnvGroupOf<Catch> first(1), second(1);
  EnvBuffers of_first(first), of_second(second);
  first.reset(std::vector<std::uint64_t>{7}, of_first.arrays());
  for (int step = 0; step < 16; ++step) first.step({.discrete = &kLeft}, of_first.arrays());
  second.load(first.save(), of_second.arrays());
  for (int step = 0; step < 60; ++step) {
    ASSERT_TRUE(std::ranges::equal(of_first.observation<std::uint8_t>(0), of_second.observation<std::uint8_t>(0)));
    first.step({.discrete = &kRight}, of_first.arrays());
    second.step({.discrete = &kRight}, of_second.arrays());
    ASSERT_EQ(of_second.reward()[0], of_first.reward()[0]);
  }
}

TEST(CatchTest, AStateThatCannotBeIsRefused) {
  Catch env;
  EXPECT_THROW((void)env.load(std::vector<std::byte>(3)), CheckpointError);
  NumpyGenerator random(1);
  (void)env.reset(random);
  auto state = env.save();
  state[0] = std::byte{kSide};
  EXPECT_THROW((void)env.load(state), CheckpointError);
}

}  // namespace
}  // namespace tandem::rl
