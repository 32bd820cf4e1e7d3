#include "tandem/rl/replay/hindsight.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "tandem/rl/replay/testing/draw.h"
#include "tandem/rl/replay/testing/specs.h"

namespace tandem::rl {
namespace {

constexpr std::size_t kAchieved = 0, kDesired = 1;

// -1 until the goal is reached, and 0 then, with which the task is done.
void reach_reward(const GoalRows& rows) {
  constexpr std::size_t kBytes = 2 * sizeof(float);
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows.rows); ++i) {
    const bool is_reached = std::memcmp(rows.achieved + i * kBytes, rows.desired + i * kBytes, kBytes) == 0;
    rows.reward[i] = is_reached ? 0 : -1;
    rows.terminated[i] = is_reached ? 1 : 0;
  }
}

// Random achieved goals are all different, so a goal tells the row that achieved it.
struct Goals {
  Goals(HindsightOptions hindsight, int n_step, PastEnds ends = {.terminated = 4, .truncated = 4, .both = 1})
      : past(goal_spec(), 2, 12, ends),
        options{.rows = 400,
                .n_step = n_step,
                .gamma = 0.5,
                .kept_ends = KeptEnds::kAll,
                .ends = 400,
                .hindsight = std::move(hindsight)},
        part(past.spec(), 2, options, 4) {
    past.begin(part);
  }
  // The row whose step achieved the goal; -1: none that is held.
  [[nodiscard]] std::int64_t achiever(const Past::Bytes& goal) const {
    for (std::int64_t row = std::max<std::int64_t>(past.now() - 200, 0) * 2; row < past.now() * 2; ++row) {
      if (past.row(row).next[kAchieved] == goal) return row;
    }
    return -1;
  }
  [[nodiscard]] bool is_relabelled(const Draw& draw, std::size_t i) const {
    const Past::Bytes& own = past.row(draw.row[i]).observation[kDesired];
    return std::memcmp(draw.observation[kDesired].data() + i * own.size(), own.data(), own.size()) != 0;
  }
  // The last row of the episode so far.
  [[nodiscard]] std::int64_t last_of_episode(std::int64_t row) const {
    while (past.row(row).end == 0 && row + 2 < past.now() * 2) row += 2;
    return row;
  }
  [[nodiscard]] std::int64_t first_of_episode(std::int64_t row) const {
    const std::int64_t oldest = std::max<std::int64_t>(past.now() - 200, 0) * 2;
    while (row - 2 >= oldest && past.row(row - 2).end == 0) row -= 2;
    return row;
  }
  Past past;
  ReplayOptions options;
  ReplayPart part;
};

TEST(HindsightTest, KOfKPlusOneRowsGetAnotherGoal) {
  for (const int k : {0, 1, 4}) {
    Goals goals({.goals = k, .reward = reach_reward}, 1);
    goals.past.steps(goals.part, 100);
    const Draw draw(goals.part, goals.past.spec(), 10'000);
    double relabelled = 0;
    for (std::size_t i = 0; i < draw.row.size(); ++i) relabelled += goals.is_relabelled(draw, i) ? 1 : 0;
    EXPECT_NEAR(relabelled / 10'000, k / (k + 1.0), 0.02) << k;
  }
}

TEST(HindsightTest, FutureGoalsWereAchievedFromTheStepOnInTheSameEpisode) {
  Goals goals({.strategy = GoalStrategy::kFuture, .goals = 4, .reward = reach_reward}, 1);
  goals.past.steps(goals.part, 500);
  const Draw draw(goals.part, goals.past.spec(), 3000);
  std::map<std::int64_t, int> ahead;
  for (std::size_t i = 0; i < draw.row.size(); ++i) {
    if (!goals.is_relabelled(draw, i)) continue;
    const std::int64_t by = goals.achiever(draw.observation_of(i, kDesired)), row = draw.row[i];
    ASSERT_GE(by, row);
    ASSERT_EQ((by - row) % 2, 0) << "the same environment";
    ASSERT_LE(by, goals.last_of_episode(row));
    ++ahead[(by - row) / 2];
  }
  EXPECT_GT(ahead[0], 100) << "the step's own";
  EXPECT_GT(ahead[3], 30);
}

TEST(HindsightTest, FutureGoalsOfAnEpisodeHaveTheSameChance) {
  Goals goals({.strategy = GoalStrategy::kFuture, .goals = 1'000'000, .reward = reach_reward}, 1,
              {.terminated = 0, .truncated = 0, .both = 0});
  goals.past.steps(goals.part, 5);  // one episode each, under way
  const Draw draw(goals.part, goals.past.spec(), 20'000);
  std::map<std::int64_t, double> of_first;
  double first_rows = 0;
  for (std::size_t i = 0; i < draw.row.size(); ++i) {
    if (draw.row[i] != 0) continue;
    ++first_rows;
    ++of_first[goals.achiever(draw.observation_of(i, kDesired))];
  }
  EXPECT_EQ(of_first.size(), 5U);
  for (const auto& entry : of_first) EXPECT_NEAR(entry.second / first_rows, 0.2, 0.04) << entry.first;
}

TEST(HindsightTest, FinalGoalsAreThoseThatEpisodesEndedWith) {
  Goals goals({.strategy = GoalStrategy::kFinal, .goals = 4, .reward = reach_reward}, 1);
  goals.past.steps(goals.part, 500);
  const Draw draw(goals.part, goals.past.spec(), 2000);
  for (std::size_t i = 0; i < draw.row.size(); ++i) {
    if (!goals.is_relabelled(draw, i)) continue;
    ASSERT_EQ(goals.achiever(draw.observation_of(i, kDesired)), goals.last_of_episode(draw.row[i]));
  }
}

TEST(HindsightTest, EpisodeGoalsComeFromTheWholeEpisodeThatIsHeld) {
  Goals goals({.strategy = GoalStrategy::kEpisode, .goals = 4, .reward = reach_reward}, 1);
  goals.past.steps(goals.part, 500);
  const Draw draw(goals.part, goals.past.spec(), 3000);
  int earlier = 0;
  for (std::size_t i = 0; i < draw.row.size(); ++i) {
    if (!goals.is_relabelled(draw, i)) continue;
    const std::int64_t by = goals.achiever(draw.observation_of(i, kDesired));
    ASSERT_GE(by, goals.first_of_episode(draw.row[i]));
    ASSERT_LE(by, goals.last_of_episode(draw.row[i]));
    ASSERT_EQ((by - draw.row[i]) % 2, 0);
    earlier += by < draw.row[i] ? 1 : 0;
  }
  EXPECT_GT(earlier, 300);
}

// Rewards and ends by the naive way: step by step under the goal that the draw shows.
TEST(HindsightTest, ReturnsFollowFromTheNewGoal) {
  for (const int n_step : {1, 3}) {
    for (const GoalStrategy strategy : {GoalStrategy::kFuture, GoalStrategy::kEpisode}) {
      Goals goals({.strategy = strategy, .goals = 4, .reward = reach_reward}, n_step);
      goals.past.steps(goals.part, 300);
      const Draw draw(goals.part, goals.past.spec(), 2000);
      int reached = 0, cut = 0;
      for (std::size_t i = 0; i < draw.row.size(); ++i) {
        if (!goals.is_relabelled(draw, i)) {
          expect_as_in(goals.past, goals.options, draw, i);
          continue;
        }
        const Past::Bytes goal = draw.observation_of(i, kDesired);
        double sum = 0, discount = 1;
        std::int64_t row = draw.row[i];
        for (int k = 0; k < n_step; ++k, row += 2) {
          const bool is_reached = goals.past.row(row).next[kAchieved] == goal;
          sum += discount * (is_reached ? 0 : -1);
          discount *= 0.5;
          if (is_reached) discount = 0;
          reached += is_reached ? 1 : 0;
          cut += !is_reached && goals.past.row(row).end != 0 ? 1 : 0;
          if (is_reached || goals.past.row(row).end != 0 || k + 1 == n_step) break;
        }
        ASSERT_EQ(draw.reward[i], sum);
        ASSERT_EQ(draw.discount[i], discount) << "an end that the new goal does not know is a truncation";
        Past::Bytes next = goals.past.row(row).next[kAchieved];
        ASSERT_EQ(draw.next_of(i, kAchieved), next);
        ASSERT_EQ(draw.next_of(i, kDesired), goal) << "the goal of the next observation changes along";
      }
      EXPECT_GT(reached, 100);
      EXPECT_GT(cut, strategy == GoalStrategy::kEpisode ? 20 : -1);
    }
  }
}

TEST(HindsightTest, TheFunctionSeesTheEnvironmentsOwnEndsAndMayKeepThem) {
  std::vector<std::uint8_t> seen;
  const auto keep = [&seen](const GoalRows& rows) {
    for (std::int64_t i = 0; i < rows.rows; ++i) seen.push_back(rows.terminated[i]);
  };
  Goals goals({.goals = 1'000'000, .reward = keep}, 1, {.terminated = 50, .truncated = 20, .both = 0});
  goals.past.steps(goals.part, 100);
  const Draw draw(goals.part, goals.past.spec(), 500);
  ASSERT_EQ(seen.size(), 500U);
  for (std::size_t i = 0; i < 500; ++i) {
    const bool is_terminated = (goals.past.row(draw.row[i]).end & 1) != 0;
    ASSERT_EQ(seen[i] != 0, is_terminated);
    ASSERT_EQ(draw.discount[i], is_terminated ? 0 : 0.5);
    ASSERT_EQ(draw.reward[i], goals.past.row(draw.row[i]).reward) << "a reward that is left alone stays";
  }
}

TEST(HindsightTest, GoalsNeverCrossACutByBegin) {
  Goals goals({.strategy = GoalStrategy::kFinal, .goals = 1'000'000, .reward = reach_reward}, 1,
              {.terminated = 0, .truncated = 0, .both = 0});
  goals.past.steps(goals.part, 7);
  goals.past.begin(goals.part);
  goals.past.steps(goals.part, 5);
  const Draw draw(goals.part, goals.past.spec(), 200);
  for (std::size_t i = 0; i < draw.row.size(); ++i) {
    const std::int64_t last = (draw.row[i] < 14 ? 12 : 22) + draw.row[i] % 2;
    EXPECT_EQ(goals.achiever(draw.observation_of(i, kDesired)), last);
  }
}

}  // namespace
}  // namespace tandem::rl
