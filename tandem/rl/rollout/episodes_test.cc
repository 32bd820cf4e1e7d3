#include "tandem/rl/rollout/episodes.h"

#include <gtest/gtest.h>

#include <array>

namespace tandem::rl {
namespace {

TEST(EpisodeTrackerTest, AnEpisodeSumsItsRewardsUpToItsEnd) {
  EpisodeTracker tracker(2, 10);
  const double reward[] = {1.0, 0.5};
  const std::uint8_t none[] = {0, 0}, first[] = {1, 0}, second[] = {0, 1};
  tracker.record(0, reward, none, none);
  tracker.record(1, reward, first, none);
  tracker.record(2, reward, none, second);
  const std::vector<Episode> finished = tracker.finished();
  tracker.clear_finished();
  ASSERT_EQ(finished.size(), 2u);
  EXPECT_EQ(finished[0].episode_return, 2.0);
  EXPECT_EQ(finished[0].length, 2);
  EXPECT_EQ(finished[0].row, 10);
  EXPECT_EQ(finished[1].episode_return, 1.5);
  EXPECT_EQ(finished[1].length, 3);
  EXPECT_EQ(tracker.running_return[0], 1.0);
  EXPECT_TRUE(tracker.finished().empty());
}

TEST(EpisodeWindowTest, KeepsTheLastEpisodesInOrderOfStepAndRow) {
  EpisodeWindow window(2);
  std::array<Episode, 3> episodes{{{.episode_return = 1, .length = 1, .step = 5, .row = 0},
                                   {.episode_return = 2, .length = 2, .step = 1, .row = 3},
                                   {.episode_return = 3, .length = 3, .step = 5, .row = 1}}};
  window.add(episodes);
  EXPECT_EQ(window.mean_return(), 2.0);
  EXPECT_EQ(window.mean_length(), 2.0);
  EXPECT_EQ(window.total(), 3);
  EXPECT_TRUE(window.full());
  EXPECT_EQ(window.episodes().front().row, 0);
}

}  // namespace
}  // namespace tandem::rl
