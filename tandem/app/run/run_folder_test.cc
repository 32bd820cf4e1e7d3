#include "tandem/app/run/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

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
  EXPECT_EQ(content_of(temporary / "runs/a"), FolderContent::kRun);
}

TEST(RunFolderTest, ARunIsNeverOverwritten) {
  const TemporaryFolder temporary;
  { const RunFolder run = RunFolder::create(temporary / "a", "env: X\n"); }
  EXPECT_THAT(message_of<ConfigError>([&] { (void)RunFolder::create(temporary / "a", "env: Y\n"); }),
              HasSubstr("tandem resume"));
  EXPECT_EQ(read_file(temporary / "a/config.yaml"), "env: X\n");
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
