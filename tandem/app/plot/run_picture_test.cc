#include "tandem/app/plot/run_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tandem/app/testing/native_algorithms.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class RunPictureTest : public ::testing::Test {
 protected:
  RunPaths run(const std::string& name, const std::string& env, int seed) {
    std::filesystem::create_directory(folder / name);
    const RunPaths paths{folder / name};
    write_file(paths.config(), concat("env: ", env, "\nseed: ", seed, "\n"));
    write_file(paths.metrics(), "{\"env_steps\":256,\"episode_return_mean\":20}\n");
    return paths;
  }
  TemporaryFolder folder;
};

TEST_F(RunPictureTest, OneRunIsNamedByItsTaskAndHowItWent) {
  const RunPaths paths = run("a", "CartPole-v1", 3);
  write_file(paths.summary(), "{\"solved_at_env_steps\":41216,\"wall_s\":6.2,\"env_steps_per_s\":18300}");
  const Chart chart = charts_of({{paths, 475.0}}).at(0);
  EXPECT_EQ(chart.title, "CartPole-v1");
  EXPECT_THAT(chart.subtitle, AllOf(HasSubstr("ppo, seed 3"), HasSubstr("Solved after 41.2k steps")));
  EXPECT_EQ(chart.threshold, 475.0);
  EXPECT_THAT(chart.curves.at(0).points, ::testing::ElementsAre(Point{256, 20}));
}

// Seeds 1, 2 and 3 with returns 10, 20 and 30 at the first step and 20 more each at the last.
TEST_F(RunPictureTest, RunsOfOneSettingAreOneCurveWithItsConfidenceInterval) {
  std::vector<PlottedRun> runs;
  for (int seed = 1; seed <= 3; ++seed) {
    runs.push_back({run(concat("seed", seed), "CartPole-v1", seed), 475.0});
    write_file(runs.back().paths.metrics(),
               concat("{\"env_steps\":0,\"episode_return_mean\":", 10 * seed, "}\n{\"env_steps\":100,",
                      "\"episode_return_mean\":", 10 * seed + 20, "}\n"));
  }
  const Chart chart = charts_of(runs).at(0);
  ASSERT_EQ(chart.curves.size(), 1u);
  const Curve& mean = chart.curves.front();
  EXPECT_THAT(mean.label, ::testing::EndsWith(", 3 seeds"));
  EXPECT_EQ(mean.points.front(), (Point{0, 20}));
  EXPECT_EQ(mean.points.back(), (Point{100, 40}));
  // The standard error of 10, 20, 30 is 10 / sqrt(3), and t of two degrees of freedom is 4.303.
  EXPECT_NEAR(mean.band.back().high - 40, 4.303 * 10 / std::sqrt(3.0), 1e-9);
  EXPECT_NEAR(40 - mean.band.back().low, 4.303 * 10 / std::sqrt(3.0), 1e-9);
  EXPECT_THAT(chart.subtitle, AllOf(HasSubstr("3 runs of ppo"), HasSubstr("95 % confidence")));
  EXPECT_EQ(chart.threshold, 475.0);
}

TEST_F(RunPictureTest, RunsAreToldApartByWhatDiffersAndElseByTheirFolders) {
  const RunPaths slow = run("slow", "CartPole-v1", 1), fast = run("fast", "CartPole-v1", 1);
  write_file(fast.config(), "env: CartPole-v1\nseed: 1\nppo.learning_rate: 0.01\n");
  const Chart two = charts_of({{slow, 475.0}, {fast, 475.0}}).at(0);
  EXPECT_THAT(two.curves.at(1).label, "ppo.learning_rate 0.01");
  const RunPaths again = run("again", "CartPole-v1", 1);
  const Chart same = charts_of({{slow, 475.0}, {again, 475.0}}).at(0);  // one seed, twice: no mean
  EXPECT_EQ(same.curves.at(0).label, "slow");
  EXPECT_EQ(same.curves.at(1).label, "again");
  write_file(again.config(), "env: CartPole-v1\nalgo: impala\nseed: 1\n");
  const Chart algorithms = charts_of({{slow, 475.0}, {fast, 475.0}, {again, 475.0}}).at(0);
  EXPECT_EQ(algorithms.subtitle, "2 runs of ppo, 1 of impala");
}

// As they were recorded when the clock of all seeds began with the first.
TEST_F(RunPictureTest, SeedsThatShareNoPartOfTheAxisAreDrawnOneByOne) {
  std::vector<PlottedRun> runs;
  for (int seed = 0; seed < 3; ++seed) {
    runs.push_back({run(concat("seed-", seed), "CartPole-v1", seed), {}});
    write_file(runs.back().paths.metrics(),
               concat("{\"env_steps\":0,\"wall_s\":", seed, ",\"episode_return_mean\":10}\n{\"env_steps\":100,",
                      "\"wall_s\":", seed, ".5,\"episode_return_mean\":20}\n"));
  }
  const Chart apart = charts_of(runs, {.x = PlotAxis::kTime}).at(0);
  ASSERT_EQ(apart.curves.size(), 3u);
  EXPECT_THAT(apart.curves[2].label, ::testing::EndsWith(", seed 2"));
  EXPECT_EQ(apart.curves[2].points.front(), (Point{2, 10}));
  EXPECT_THAT(apart.subtitle, AllOf(HasSubstr("drawn one by one"), ::testing::Not(HasSubstr("means"))));
  EXPECT_EQ(charts_of(runs).at(0).curves.size(), 1u);
}

TEST_F(RunPictureTest, AMeanSaysOfHowManySeedsItIsAndWhereItEnds) {
  std::vector<PlottedRun> runs;
  for (int seed = 0; seed < 3; ++seed) runs.push_back({run(concat("seed-", seed), "CartPole-v1", seed), {}});
  write_file(runs[0].paths.metrics(), "");  // it has not come to its first update
  write_file(runs[1].paths.metrics(),
             "{\"env_steps\":0,\"episode_return_mean\":10}\n{\"env_steps\":100,\"episode_return_mean\":20}\n");
  write_file(runs[2].paths.metrics(),
             "{\"env_steps\":0,\"episode_return_mean\":30}\n{\"env_steps\":50,\"episode_return_mean\":30}\n");
  const Chart chart = charts_of(runs).at(0);
  ASSERT_EQ(chart.curves.size(), 1u);
  EXPECT_THAT(chart.curves[0].label, ::testing::EndsWith(", 2 of 3 seeds"));
  EXPECT_EQ(chart.curves[0].points.back(), (Point{50, 22.5}));
  EXPECT_THAT(chart.subtitle, HasSubstr("where all have values"));
}

TEST_F(RunPictureTest, AFolderOfSeedsGivesItsNameToTheirCurve) {
  std::vector<PlottedRun> runs;
  for (const char* group : {"three", "again"}) {
    std::filesystem::create_directory(folder / group);
    for (int seed = 0; seed < 2; ++seed) runs.push_back({run(concat(group, "/seed-", seed), "CartPole-v1", seed), {}});
  }
  runs.push_back({run("alone", "CartPole-v1", 0), {}});
  const Chart chart = charts_of(runs).at(0);
  ASSERT_EQ(chart.curves.size(), 3u);
  EXPECT_EQ(chart.curves[0].label, "three, 2 seeds");
  EXPECT_EQ(chart.curves[1].label, "again, 2 seeds");
  EXPECT_EQ(chart.curves[2].label, "alone");
  const Chart single = charts_of({runs[0], runs[2]}).at(0);
  EXPECT_EQ(single.curves[0].label, "three/seed-0");
  EXPECT_EQ(single.curves[1].label, "again/seed-0");
}

TEST_F(RunPictureTest, SeedsOfPoliciesThatPlayAgainstEachOtherShowEachPolicysMean) {
  std::vector<PlottedRun> runs;
  for (int seed = 0; seed < 2; ++seed) {
    runs.push_back({run(concat("seed-", seed), "KuhnPoker-v0", seed), {}});
    write_file(runs.back().paths.metrics(),
               concat("{\"env_steps\":8,\"episode_return_mean\":0,\"policy/a/episode_return_mean\":0.", seed + 1,
                      ",\"policy/b/episode_return_mean\":-0.", seed + 1, "}\n"));
  }
  const Chart chart = charts_of(runs).at(0);
  ASSERT_EQ(chart.curves.size(), 2u);
  EXPECT_EQ(chart.curves[0].label, "policy a, 2 seeds");
  EXPECT_NEAR(chart.curves[1].points.front().y, -0.15, 1e-12);
  EXPECT_FALSE(chart.curves[1].band.empty());
}

TEST_F(RunPictureTest, EachEnvironmentHasAPanelOfItsOwn) {
  const std::vector<Chart> charts = charts_of(
      {{run("a", "CartPole-v1", 1), 475.0}, {run("p", "Pendulum-v1", 1), {}}, {run("b", "CartPole-v1", 2), 475.0}});
  ASSERT_EQ(charts.size(), 2u);
  EXPECT_EQ(charts[0].title, "CartPole-v1");
  EXPECT_EQ(charts[1].title, "Pendulum-v1");
  EXPECT_EQ(charts[1].threshold, std::nullopt);
  write_charts(charts, folder / "both.png", {300, 200});
  EXPECT_TRUE(std::filesystem::exists(folder / "both.png"));
}

TEST_F(RunPictureTest, AnotherMetricOrAxisIsDrawnAndOneThatIsNotThereIsNamedWithThoseThatAre) {
  const RunPaths paths = run("a", "CartPole-v1", 1);
  // The run was resumed: the clock of its second process begins anew.
  write_file(paths.metrics(),
             "{\"env_steps\":8,\"wall_s\":1,\"episodes\":3,\"entropy\":0.5}\n"
             "{\"env_steps\":16,\"wall_s\":4,\"episodes\":6,\"entropy\":0.4}\n"
             "{\"env_steps\":24,\"wall_s\":2,\"episodes\":7,\"entropy\":0.3}\n");
  const auto drawn = [&](PlotAxis x) { return charts_of({{paths, 475.0}}, {.metric = "entropy", .x = x}).at(0); };
  EXPECT_THAT(drawn(PlotAxis::kTime).curves.at(0).points,
              ::testing::ElementsAre(Point{1, 0.5}, Point{4, 0.4}, Point{6, 0.3}));
  EXPECT_THAT(drawn(PlotAxis::kEpisodes).curves.at(0).points,
              ::testing::ElementsAre(Point{3, 0.5}, Point{6, 0.4}, Point{7, 0.3}));
  EXPECT_EQ(drawn(PlotAxis::kSteps).y_label, "entropy");
  EXPECT_EQ(drawn(PlotAxis::kSteps).threshold, std::nullopt);
  EXPECT_THAT(message_of<ConfigError>([&] {
                (void)charts_of({{paths, {}}}, {.metric = "entrpy"});
              }),
              AllOf(HasSubstr("--metric entrpy"), HasSubstr("entropy")));
}

TEST_F(RunPictureTest, ARunOfSeveralPoliciesShowsEachOnes) {
  const RunPaths paths = run("a", "KuhnPoker-v0", 1);
  write_file(paths.metrics(),
             "{\"env_steps\":8,\"episode_return_mean\":0,\"policy/a/episode_return_mean\":0.5,"
             "\"policy/b/episode_return_mean\":-0.5}\n");
  const Chart chart = charts_of({{paths, {}}}).at(0);
  ASSERT_EQ(chart.curves.size(), 2u);
  EXPECT_EQ(chart.curves[0].label, "policy a");
  EXPECT_EQ(chart.curves[1].points, (std::vector<Point>{{8, -0.5}}));
  EXPECT_EQ(charts_of({{paths, {}}}, {.metric = "episode_return_mean"}).at(0).curves.size(), 1u);
}

TEST_F(RunPictureTest, ARunWithoutMetricsIsAnEmptyCurve) {
  const RunPaths paths = run("a", "CartPole-v1", 1);
  std::filesystem::remove(paths.metrics());
  EXPECT_TRUE(charts_of({{paths, {}}}).at(0).curves.at(0).points.empty());
  EXPECT_NO_THROW(draw_run(paths, {}));
  EXPECT_TRUE(std::filesystem::exists(paths.curve()));
}

TEST_F(RunPictureTest, ABrokenSummaryDoesNotKeepThePictureFromBeingDrawn) {
  const RunPaths paths = run("a", "CartPole-v1", 1);
  write_file(paths.summary(), "{\"wall");
  EXPECT_EQ(charts_of({{paths, {}}}).at(0).title, "CartPole-v1");
}

}  // namespace
}  // namespace tandem::app
