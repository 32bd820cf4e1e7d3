// Functions of a program's own that watch its runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "tandem/app/run/run_folder.h"
#include "tandem/app/testing/run_captured.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/metrics/jsonl_sink.h"
#include "tandem/model/files/checkpoint.h"

namespace tandem::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class ObserverProgramTest : public ::testing::TestWithParam<const char*> {
 protected:
  Outcome train(const std::string& name, const RunObserver& observer, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"train",
                                       "--env",
                                       "CartPole-v1",
                                       "--algo",
                                       GetParam(),
                                       "--run-dir",
                                       folder / name,
                                       "--total-steps",
                                       "4096",
                                       "--num-envs",
                                       "4",
                                       "--rollout-steps",
                                       "32",
                                       "--set",
                                       "policy.hidden=8",
                                       "--set",
                                       "checkpoint.every_updates=8"};
    if (std::string(GetParam()) == "impala") {
      arguments.insert(arguments.end(), {"--set", "impala.execution=inline", "--set", "impala.workers=1", "--set",
                                         "impala.batches_per_update=1"});
    } else {
      arguments.insert(arguments.end(), {"--minibatches", "2", "--epochs", "1"});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_captured(arguments, rl::EnvRegistry::native(), observer);
  }
  JsonValue summary_of(const std::string& name) { return read_json(read_file(folder / name / "summary.json")); }

  TemporaryFolder folder;
};

TEST_P(ObserverProgramTest, TheyAreToldOfEachUpdateEpisodeAndCheckpointAndChangeNothing) {
  std::vector<std::string> order;
  std::string lines;
  std::int64_t episodes = 0;
  std::vector<double> returns;
  const RunObserver observer{.on_update =
                                 [&](const Record& line) {
                                   lines += to_json(line) + "\n";
                                   EXPECT_EQ(line.number("episodes"), static_cast<double>(episodes));
                                   order.emplace_back("update");
                                 },
                             .on_episode =
                                 [&](const rl::Episode& episode) {
                                   ++episodes;
                                   returns.push_back(episode.episode_return);
                                   EXPECT_EQ(static_cast<double>(episode.length), episode.episode_return);
                                   EXPECT_TRUE(episode.row >= 0 && episode.row < 4) << episode.row;
                                   order.emplace_back("episode");
                                 },
                             .on_checkpoint =
                                 [&](const SavedCheckpoint& saved) {
                                   EXPECT_EQ(order.back(), "update");
                                   const model::Checkpoint checkpoint = model::Checkpoint::open(saved.folder);
                                   EXPECT_EQ(checkpoint.updates(), saved.updates);
                                   EXPECT_EQ(checkpoint.info().counters.at("env_steps"), saved.env_steps);
                                   EXPECT_EQ(checkpoint.info().score, saved.score);
                                   order.emplace_back("checkpoint");
                                 }};
  const Outcome watched = train("a", observer), alone = train("b", {});
  ASSERT_EQ(watched.code, 0) << watched.err;
  EXPECT_EQ(lines, read_file(folder / "a/metrics.jsonl"));
  const JsonValue summary = summary_of("a");
  EXPECT_EQ(std::ranges::count(order, "update"), summary.at("updates").as_int64());
  EXPECT_EQ(std::ranges::count(order, "checkpoint"), (summary.at("updates").as_int64() + 7) / 8);
  ASSERT_EQ(episodes, summary.at("episodes").as_int64());
  ASSERT_GT(episodes, 100);
  double sum = 0;
  for (std::size_t i = returns.size() - 100; i < returns.size(); ++i) sum += returns[i];
  EXPECT_EQ(sum / 100, summary.at("episode_return_mean").as_double());
  EXPECT_EQ(summary.at("state_sha256").as_string(), summary_of("b").at("state_sha256").as_string());
}

TEST_P(ObserverProgramTest, AnExceptionEndsTheRunAsFailedWithItsText) {
  int updates = 0;
  const RunObserver fails{.on_update = [&](const Record&) {
    if (++updates == 10) throw std::runtime_error("the dashboard is gone");
  }};
  const Outcome failed = train("a", fails);
  EXPECT_EQ(failed.code, 3);
  EXPECT_THAT(failed.err, HasSubstr("the program's own on_update() failed: the dashboard is gone"));
  EXPECT_EQ(summary_of("a").at("end").as_string(), "failed");
  EXPECT_THAT(summary_of("a").at("failure").as_string(), HasSubstr("the dashboard is gone"));
  // The checkpoint of update 8 is whole, and the run goes on from it.
  const Outcome resumed = run_captured({"resume", folder / "a"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  ASSERT_EQ(train("b", {}).code, 0);
  EXPECT_EQ(summary_of("a").at("state_sha256").as_string(), summary_of("b").at("state_sha256").as_string());
}

TEST_P(ObserverProgramTest, ASignalThatTheyRaiseStopsTheRunInOrder) {
  const RunObserver stops{.on_update = [](const Record& line) {
    if (line.number("updates") == 3) (void)std::raise(SIGTERM);
  }};
  EXPECT_EQ(train("a", stops).code, 130);
  EXPECT_EQ(summary_of("a").at("end").as_string(), "stopped");
  EXPECT_LE(summary_of("a").at("updates").as_int64(), 4);
}

TEST_P(ObserverProgramTest, TheirWishToStopEndsTheRunAfterTheUpdateInWhichItComes) {
  double updates = 0;
  const RunObserver stops{.on_update = [&](const Record& line) { updates = line.number("updates"); },
                          .wants_stop = [&] { return updates == 3; }};
  EXPECT_EQ(train("a", stops).code, 130);
  EXPECT_EQ(summary_of("a").at("end").as_string(), "stopped");
  EXPECT_EQ(summary_of("a").at("updates").as_int64(), 3);
  EXPECT_THAT(read_file(folder / "a/log.txt"), HasSubstr("wants_stop(): the run stops after update 3"));
  ASSERT_EQ(run_captured({"resume", folder / "a"}).code, 0);
  ASSERT_EQ(train("b", {}).code, 0);
  EXPECT_EQ(summary_of("a").at("state_sha256").as_string(), summary_of("b").at("state_sha256").as_string());
}

TEST_P(ObserverProgramTest, TheirWishForACheckpointIsOneOfThatUpdate) {
  double updates = 0;
  std::vector<std::int64_t> saved;
  const RunObserver saves{.on_update = [&](const Record& line) { updates = line.number("updates"); },
                          .on_checkpoint = [&](const SavedCheckpoint& its) { saved.push_back(its.updates); },
                          .wants_checkpoint = [&] { return updates == 3 || updates == 4; }};
  ASSERT_EQ(train("a", saves).code, 0);
  EXPECT_THAT(saved, ElementsAre(3, 4, 12, 20, 28, 32));  // every eighth besides, counted from the last one
  ASSERT_EQ(train("b", {}).code, 0);
  EXPECT_EQ(summary_of("a").at("state_sha256").as_string(), summary_of("b").at("state_sha256").as_string());
}

TEST_P(ObserverProgramTest, TheLogNamesTheirWishInTheirWords) {
  const RunObserver stops{.wants_stop = [] { return true; }, .stop_wish = "the button of the dashboard"};
  EXPECT_EQ(train("a", stops).code, 130);
  EXPECT_THAT(read_file(folder / "a/log.txt"), HasSubstr("the button of the dashboard: the run stops after update 1"));
}

// Removed before an update (10), and between an update and the checkpoint that is due after it (16).
TEST_P(ObserverProgramTest, ARunWhoseFolderIsRemovedEndsWithAnErrorAndDoesNotBringItBack) {
  for (const double last : {10., 16.}) {
    double updates = 0;
    const RunObserver removes{.on_update = [&](const Record& line) {
      updates = line.number("updates");
      // At once, since the run writes its status now and then.
      if (updates == last) std::filesystem::rename(folder / "a", folder / "moved");
    }};
    const Outcome failed = train("a", removes);
    EXPECT_EQ(failed.code, 3);
    EXPECT_THAT(failed.err, HasSubstr("the run folder " + (folder / "a").string() + " was removed or replaced"));
    EXPECT_EQ(updates, last);
    EXPECT_FALSE(std::filesystem::exists(folder / "a"));
    // As the message says, a folder that was moved can be resumed, from the checkpoint of update 8.
    const Outcome resumed = run_captured({"resume", folder / "moved"});
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    std::filesystem::remove_all(folder / "moved");
  }
}

TEST_P(ObserverProgramTest, ARunWhoseFolderIsReplacedLeavesTheNewOneAlone) {
  for (const double last : {10., 16.}) {
    std::optional<RunFolder> other;
    const RunObserver replaces{.on_update = [&](const Record& line) {
      if (line.number("updates") != last) return;
      std::filesystem::rename(folder / "a", folder / "moved");
      other.emplace(RunFolder::create(folder / "a", "env: Other-v0\n"));
      std::filesystem::create_directory(other->paths().checkpoints() / "u000000000001");  // it is being written
    }};
    const Outcome failed = train("a", replaces);
    EXPECT_EQ(failed.code, 3);
    EXPECT_THAT(failed.err, HasSubstr("was removed or replaced while the run trained"));
    std::vector<std::string> names;
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder / "a"))
      names.push_back(file.path().filename().string());
    EXPECT_THAT(names, UnorderedElementsAre(".lock", "config.yaml", "checkpoints", "u000000000001"));
    EXPECT_EQ(read_file(folder / "a/config.yaml"), "env: Other-v0\n");
    std::filesystem::remove_all(folder / "a");
    std::filesystem::remove_all(folder / "moved");
  }
}

TEST_P(ObserverProgramTest, ASignalInTheLastUpdateOfASeedIsMeantForTheSeedsToCome) {
  const RunObserver stops{.on_update = [](const Record& line) {
    if (line.number("env_steps") >= 4096) (void)std::raise(SIGTERM);
  }};
  const std::vector<std::string> seeds{"--seed", "3", "--seeds", "2"};
  const Outcome stopped = train("all", stops, seeds);
  EXPECT_EQ(stopped.code, 130) << stopped.err;
  EXPECT_THAT(stopped.out, HasSubstr("stopped after run 1 of 2; the same command"));
  EXPECT_EQ(summary_of("all/seed-3").at("end").as_string(), "finished");
  EXPECT_FALSE(std::filesystem::exists(folder / "all/seed-4"));
  // Behind the last run nothing is left to stop.
  const Outcome ended = train("all", stops, seeds);
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(summary_of("all/seed-4").at("end").as_string(), "finished");
  EXPECT_TRUE(std::filesystem::exists(folder / "all/seeds.json"));
}

INSTANTIATE_TEST_SUITE_P(Algorithms, ObserverProgramTest, ::testing::Values("ppo", "impala"),
                         [](const auto& its) { return std::string(its.param); });

}  // namespace
}  // namespace tandem::app
