#include "tandem/rl/rollout/episodes.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

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

TEST(EpisodeTrackerTest, AFinishedEpisodeHasTheMetricsOfItsRow) {
  EpisodeTracker tracker(2, 10);
  const double reward[] = {0, 0}, metrics[] = {1, 2, 3, 4};
  const std::uint8_t none[] = {0, 0}, second[] = {0, 1};
  tracker.record(0, reward, none, second, metrics);
  ASSERT_EQ(tracker.finished().size(), 1u);
  EXPECT_EQ(tracker.finished()[0].metrics, (std::vector<double>{3, 4}));
}

TEST(EpisodeWindowTest, TheMeanOfAMetricIsOverTheEpisodesForWhichItIsKnown) {
  EpisodeWindow window;
  EXPECT_EQ(window.mean_metric(0), std::nullopt);
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  std::array<Episode, 3> episodes{{{.step = 1, .metrics = {1, unknown}},
                                   {.step = 2, .metrics = {unknown, unknown}},
                                   {.step = 3, .metrics = {4, unknown}}}};
  window.add(episodes);
  EXPECT_EQ(window.mean_metric(0), 2.5);
  EXPECT_EQ(window.mean_metric(1), std::nullopt);
}

}  // namespace
}  // namespace tandem::rl
