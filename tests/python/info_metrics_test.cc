// Numbers in the info of Python environments as metrics of their episodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/isolated/several_workers.h"
#include "tandem/rl/env/python/python_envs.h"

namespace tandem::rl {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<EnvGroup> told(const std::string& id, const std::string& metrics, int workers = 1) {
  const EnvOptionTexts options{{kInterpreterOption, TEST_PYTHON}, {"python.metrics", metrics}};
  EnvRegistry known;
  for (EnvKind& kind : python_kinds({})) known.add_kind(std::move(kind));
  known.set_options(id, options);
  return in_workers(known.spec(id), 2, workers, python_isolation({}, id, options), nullptr);
}

// The metrics of the first episodes of two environments, which begin with the heights 4 and 5, and of the second ones.
std::vector<std::vector<double>> metrics_of(EnvGroup& group) {
  const std::size_t count = group.spec().metrics.size();
  EnvBuffers buffers(group);
  std::vector<double> values(2 * count);
  EnvArrays out = buffers.arrays();
  out.metrics = values.data();
  group.reset(std::vector<std::uint64_t>{4, 5}, out);
  const std::vector<std::int64_t> actions(2);
  std::vector<std::vector<double>> all;
  for (int step = 1; step <= 6; ++step) {
    group.step({.discrete = actions.data()}, out);
    EXPECT_EQ(buffers.terminated()[0], step % 3 == 0 ? 1 : 0);
    if (step % 3 == 0) all.push_back(values);
  }
  return all;
}

// Told are the last number of an episode, the mean of those that are told, and what no step tells.
TEST(PythonMetricsTest, AreTheLastOfAnEpisodeOrItsMean) {
  for (const char* id : {"gymnasium:told_env:Told-v0", "gymnasium:told_env:Told-v1"}) {
    SCOPED_TRACE(id);
    const auto group = told(id, R"(["height", "mean:nowhere", "is_success"])", 2);
    EXPECT_EQ(group->spec().metrics.at(0).over, Over::kEpisodes);
    EXPECT_EQ(group->spec().metrics.at(1).over, Over::kSteps);
    const auto all = metrics_of(*group);
    EXPECT_EQ(all.at(0).at(0), 12);
    EXPECT_EQ(all.at(0).at(3), 15);
    EXPECT_EQ(all.at(1).at(0), 15);
    EXPECT_TRUE(std::isnan(all.at(0).at(1)));
    EXPECT_EQ(all.at(0).at(2), 1);
    EXPECT_EQ(all.at(0).at(5), 0);
    EXPECT_EQ(all.at(1).at(2), 0);
    const auto means = metrics_of(*told(id, R"(["mean:height", "mean:late", "odd", "name"])"));
    EXPECT_EQ(means.at(0).at(0), 8);
    EXPECT_EQ(means.at(1).at(4), 12);
    EXPECT_EQ(means.at(0).at(1), 2.5);
    EXPECT_TRUE(std::isnan(means.at(0).at(2)));
    EXPECT_TRUE(std::isnan(means.at(0).at(3)));
  }
}

TEST(PythonMetricsTest, WhoseNamesCannotBeAreRefused) {
  EXPECT_THAT(message_of<ConfigError>([] { (void)told("gymnasium:told_env:Told-v0", "a/b"); }), HasSubstr("a/b"));
  EXPECT_THAT(message_of<ConfigError>([] { (void)told("gymnasium:told_env:Told-v0", "[1]"); }),
              HasSubstr("python.metrics is [1]; it is a name in info, or a JSON list of such"));
}

}  // namespace
}  // namespace tandem::rl
