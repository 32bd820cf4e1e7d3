#include "tandem/app/plot/run_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/app/testing/native_algorithms.h"
#include "tandem/base/atomic_file.h"
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
  const Chart chart = chart_of({{paths, 475.0}});
  EXPECT_EQ(chart.title, "CartPole-v1");
  EXPECT_THAT(chart.subtitle, AllOf(HasSubstr("ppo, seed 3"), HasSubstr("Solved after 41.2k steps")));
  EXPECT_EQ(chart.threshold, 475.0);
  EXPECT_THAT(chart.curves.at(0).points, ::testing::ElementsAre(Point{256, 20}));
}

TEST_F(RunPictureTest, SeedsTellRunsOfOneTaskApart) {
  const Chart chart = chart_of({{run("a", "CartPole-v1", 1), 475.0}, {run("b", "CartPole-v1", 2), 475.0}});
  EXPECT_EQ(chart.curves.at(0).label, "seed 1");
  EXPECT_EQ(chart.curves.at(1).label, "seed 2");
  EXPECT_EQ(chart.threshold, 475.0);
}

TEST_F(RunPictureTest, FoldersTellOtherRunsApart) {
  run("b", "Pendulum-v1", 1);
  const Chart chart = chart_of({{run("a", "CartPole-v1", 1), 475.0}, {{folder.path() / "b" / ""}, {}}});
  EXPECT_EQ(chart.title, "2 runs");
  EXPECT_EQ(chart.curves.at(0).label, "a");
  EXPECT_EQ(chart.curves.at(1).label, "b");
  EXPECT_EQ(chart.threshold, std::nullopt);
}

TEST_F(RunPictureTest, ARunWithoutMetricsIsAnEmptyCurve) {
  const RunPaths paths = run("a", "CartPole-v1", 1);
  std::filesystem::remove(paths.metrics());
  EXPECT_TRUE(chart_of({{paths, {}}}).curves.at(0).points.empty());
  EXPECT_NO_THROW(draw_run(paths, {}));
  EXPECT_TRUE(std::filesystem::exists(paths.curve()));
}

TEST_F(RunPictureTest, ABrokenSummaryDoesNotKeepThePictureFromBeingDrawn) {
  const RunPaths paths = run("a", "CartPole-v1", 1);
  write_file(paths.summary(), "{\"wall");
  EXPECT_EQ(chart_of({{paths, {}}}).title, "CartPole-v1");
}

}  // namespace
}  // namespace tandem::app
