// How many processes the env groups of a run have, which share the cores of the machine.
#include "tandem/app/train/isolation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "tandem/app/testing/native_algorithms.h"
#include "tandem/base/process.h"
#include "tandem/concurrency/cores.h"
#include "tandem/rl/algo/impala/impala_options.h"

namespace tandem::app {
namespace {

TrainOptions python_run(const std::string& algo, std::int64_t shards) {
  TrainOptions options;
  options.algo = algo;
  options.env = "gymnasium:CartPole-v1";
  options.shards = shards;
  return options;
}

TEST(WorkersOfGroupTest, ShareTheCoresThatTheGroupsLeave) {
  const int cores = usable_cores().whole();
  EXPECT_EQ(workers_of_group(python_run("ppo", 1)), cores);
  EXPECT_EQ(workers_of_group(python_run("ppo", cores + 1)), 1);
  TrainOptions options = python_run("ppo", 2);
  options.env_workers = 3;
  EXPECT_EQ(workers_of_group(options), 3);
}

// Each rollout worker has groups of its own, of each shard and split.
TEST(WorkersOfGroupTest, CountTheGroupsOfAllRolloutWorkersAndSplits) {
  const int cores = usable_cores().whole();
  for (const char* algo : {"impala", "appo"}) {
    TrainOptions options = python_run(algo, 1);
    options.of<rl::ImpalaOptions>().workers = 1;
    EXPECT_EQ(workers_of_group(options), cores) << algo;
    options.of<rl::ImpalaOptions>().workers = cores;
    EXPECT_EQ(workers_of_group(options), 1) << algo;
    options.of<rl::ImpalaOptions>().workers = 1;
    options.of<rl::ImpalaOptions>().splits = cores;
    EXPECT_EQ(workers_of_group(options), 1) << algo;
  }
}

// Their threads share the cores as the workers of others do, and leave none to spin on.
TEST(IsolationOfAtariTest, ThreadsShareTheCoresUnlessTheUserSaysHowMany) {
  TrainOptions options = python_run("ppo", 1);
  options.env = "ALE/Pong-v5";
  options.python = "/bin/true";
  const auto threads = [&options] {
    const rl::EnvOptionTexts texts = isolation_of(options, 1)->task.options;
    return std::ranges::find(texts, "num_threads", &rl::EnvOptionTexts::value_type::first)->second;
  };
  const int cores = usable_cores().whole();
  EXPECT_EQ(threads(), std::to_string(cores));
  EXPECT_EQ(isolation_of(options, 1)->spin.limit.count(), 0);
  options.shards = cores;
  EXPECT_EQ(threads(), "1");
  options.env_options = {"num_threads=7"};
  EXPECT_EQ(threads(), "7");
}

}  // namespace
}  // namespace tandem::app
