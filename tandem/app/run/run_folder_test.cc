#include "tandem/app/run/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tandem/app/run/run_status.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/base/testing/temporary_folder.h"

namespace tandem::app {
namespace {

using ::testing::HasSubstr;

TEST(RunFolderTest, ANewRunHasItsConfigAndAPlaceForCheckpoints) {
  const TemporaryFolder temporary;
  const RunFolder run = RunFolder::create(temporary / "runs/a", "env: X\n");
  EXPECT_EQ(read_file(run.paths().config()), "env: X\n");
  EXPECT_TRUE(std::filesystem::is_directory(run.paths().checkpoints()));
  EXPECT_EQ(content_of(temporary / "runs/a"), FolderContent::kUnbegun);
  write_file(run.paths().metrics(), "{\"updates\": 1}\n");
  EXPECT_EQ(content_of(temporary / "runs/a"), FolderContent::kRun);
}

TEST(RunFolderTest, ARunIsNeverOverwritten) {
  const TemporaryFolder temporary;
  { const RunFolder run = RunFolder::create(temporary / "a", "env: X\n"); }
  write_file(temporary / "a/metrics.jsonl", "{\"updates\": 1}\n");
  EXPECT_THAT(message_of<ConfigError>([&] { (void)RunFolder::create(temporary / "a", "env: Y\n"); }),
              HasSubstr("tandem resume"));
  EXPECT_EQ(read_file(temporary / "a/config.yaml"), "env: X\n");
}

class UnbegunRunTest : public ::testing::Test {
 protected:
  UnbegunRunTest() {
    { const RunFolder run = RunFolder::create(folder_, "env: X\n"); }
    write_file(folder_ / "log.txt", "why it failed\n");
    write_file(folder_ / "metrics.jsonl", "");
    write_status(folder_ / "status.json", {.env = "X", .algo = "ppo", .state = "failed"});
    write_file(folder_ / "summary.json", "{\"end\":\"failed\",\"env_steps\":0}\n");
    write_file(folder_ / "events.out.tfevents.1.host", "head");
  }

  const TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_ / "a";
};

TEST_F(UnbegunRunTest, GivesWayToANewOneAndLosesNothing) {
  EXPECT_EQ(content_of(folder_), FolderContent::kUnbegun);
  EXPECT_TRUE(holds_run(folder_));
  EXPECT_EQ(find_run(folder_).folder, folder_);
  {
    const RunFolder run = RunFolder::create(folder_, "env: Y\n");
    EXPECT_THAT(run.remark(), HasSubstr("its settings are in config.yaml.1"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "summary.json"));
  }
  {
    const RunFolder run = RunFolder::create(folder_, "env: Z\n");
    EXPECT_THAT(run.remark(), HasSubstr("its settings are in config.yaml.2"));
  }
  {
    const RunFolder run = RunFolder::create(folder_, "env: Z\n");
    EXPECT_THAT(run.remark(), ::testing::EndsWith("this one takes its place"));
  }
  EXPECT_EQ(read_file(folder_ / "config.yaml"), "env: Z\n");
  EXPECT_EQ(read_file(folder_ / "config.yaml.1"), "env: X\n");
  EXPECT_EQ(read_file(folder_ / "config.yaml.2"), "env: Y\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "config.yaml.3"));
  EXPECT_EQ(read_file(folder_ / "log.txt"), "why it failed\n");
}

TEST_F(UnbegunRunTest, WhatARunHasRecordedOrIsNotItsOwnKeepsItsPlace) {
  const auto stays = [&](const char* name, const std::string& content) {
    const std::string before = std::filesystem::exists(folder_ / name) ? read_file(folder_ / name) : "";
    std::filesystem::create_directories((folder_ / name).parent_path());
    write_file(folder_ / name, content);
    EXPECT_EQ(content_of(folder_), FolderContent::kRun) << name;
    EXPECT_THAT(message_of<ConfigError>([&] { (void)RunFolder::create(folder_, "env: Y\n"); }),
                HasSubstr("tandem resume"));
    std::filesystem::remove(folder_ / name);
    if (!before.empty()) write_file(folder_ / name, before);
  };
  stays("metrics.jsonl", "{}\n");
  stays("status.json", "{");
  stays("summary.json", "{}");
  stays("summary.json", "{\"env_steps\":1}");
  stays("rollouts.jsonl", "");
  stays("curve.png", "");
  stays("checkpoints/u000000000001.part", "");
  stays("config.yaml.old", "mine");
  write_status(folder_ / "status.json", {.env = "X", .algo = "ppo", .state = "running", .env_steps = 1});
  EXPECT_EQ(content_of(folder_), FolderContent::kRun);
}

TEST_F(UnbegunRunTest, StaysUsableWhenTheNextOneIsKilledWhileItBegins) {
  for (const char* fault : {"file.rename:1:throw", "file.rename:2:throw"}) {  // the copy, and the new settings
    arm_fault(parse_fault(fault));
    EXPECT_THROW((void)RunFolder::create(folder_, "env: Y\n"), InjectedFault);
    EXPECT_EQ(content_of(folder_), FolderContent::kUnbegun);
    EXPECT_EQ(read_file(folder_ / "config.yaml"), "env: X\n");
  }
  write_file(folder_ / "config.yaml.2.part", "env");
  const RunFolder run = RunFolder::create(folder_, "env: Y\n");
  EXPECT_EQ(read_file(folder_ / "config.yaml"), "env: Y\n");
}

TEST(RunFolderTest, AFolderOfOtherFilesIsRefused) {
  const TemporaryFolder temporary;
  write_file(temporary / "thesis.tex", "text");
  EXPECT_THAT(message_of<ConfigError>([&] { (void)RunFolder::create(temporary.path(), ""); }),
              HasSubstr("belong to no run"));
  EXPECT_THAT(message_of<ConfigError>([&] { (void)RunFolder::create(temporary / "thesis.tex", ""); }),
              HasSubstr("thesis.tex is a file"));
  EXPECT_THAT(message_of<ConfigError>([&] { (void)RunFolder::open(temporary.path()); }), HasSubstr("no config.yaml"));
}

TEST(RunFolderTest, ARunThatDiedBeforeItsConfigIsNoObstacle) {
  const TemporaryFolder temporary;
  const std::filesystem::path folder = temporary / "a";
  arm_fault(parse_fault("file.rename:1:throw"));
  EXPECT_THROW((void)RunFolder::create(folder, "env: X\n"), InjectedFault);
  std::filesystem::remove(folder / "checkpoints");
  write_file(folder / "config.yaml.part", "env");
  EXPECT_EQ(content_of(folder), FolderContent::kFree);
  EXPECT_THAT(message_of<ConfigError>([&] { (void)RunFolder::open(folder); }), HasSubstr("holds no run yet"));
  const RunFolder run = RunFolder::create(folder, "env: Y\n");
  EXPECT_EQ(read_file(run.paths().config()), "env: Y\n");
}

TEST(RunFolderTest, AMissingRunIsNamed) {
  EXPECT_THAT(message_of<ConfigError>([] { (void)find_run("/nowhere/a"); }), HasSubstr("no run folder /nowhere/a"));
}

TEST(RunFolderTest, AFolderThatCannotBeWrittenIsAnErrorOfTheWorld) {
  EXPECT_THAT(message_of<CheckpointError>([] { (void)RunFolder::create("/proc/a", ""); }), HasSubstr("/proc/a"));
}

TEST(RunFolderTest, TwoProcessesDoNotUseOneRun) {
  const TemporaryFolder temporary;
  const RunFolder run = RunFolder::create(temporary / "a", "");
  const std::string message = message_of<ConfigError>([&] { (void)RunFolder::open(temporary / "a"); });
  EXPECT_THAT(message, HasSubstr("in use by process " + std::to_string(::getpid())));
}

TEST(RunFolderTest, OneThatWasMovedRemovedOrReplacedIsNotInPlace) {
  const TemporaryFolder temporary;
  const std::filesystem::path place = temporary / "a", elsewhere = temporary / "b";
  const RunFolder run = RunFolder::create(place, "");
  EXPECT_NO_THROW(run.require_in_place());
  std::filesystem::rename(place, elsewhere);
  const std::string message = message_of<RunError>([&] { run.require_in_place(); });
  EXPECT_THAT(message,
              HasSubstr("the run folder " + place.string() + " was removed or replaced while the run trained"));
  {
    const RunFolder other = RunFolder::create(place, "");
    EXPECT_FALSE(run.is_in_place());
    EXPECT_TRUE(other.is_in_place());
  }
  std::filesystem::remove_all(place);
  std::filesystem::rename(elsewhere, place);
  EXPECT_TRUE(run.is_in_place());
}

TEST(RunFolderTest, ALockEndsWithAKilledProcess) {
  const TemporaryFolder temporary;
  { const RunFolder run = RunFolder::create(temporary / "a", ""); }
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const RunLock lock(temporary / "a");
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_EQ(read_file(temporary / "a/.lock"), std::to_string(child));
  EXPECT_NO_THROW((void)RunFolder::open(temporary / "a"));
}

TEST(NewRunPathTest, NamesEnvironmentAlgorithmAndTimeAndNeverAnExistingFolder) {
  const TemporaryFolder temporary;
  const auto now = std::chrono::system_clock::now();
  const std::filesystem::path first = new_run_path(temporary.path(), "my/Env-v0", "ppo", now);
  EXPECT_THAT(first.filename().string(), ::testing::MatchesRegex("my_Env-v0-ppo-[0-9]{8}-[0-9]{6}"));
  std::filesystem::create_directory(first);
  EXPECT_EQ(new_run_path(temporary.path(), "my/Env-v0", "ppo", now), first.string() + "-2");
}

}  // namespace
}  // namespace tandem::app
