#include "tandem/app/run/run_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/temporary_folder.h"

namespace tandem::app {
namespace {

TEST(RunLogTest, ALineHasTimeSeverityAndText) {
  const std::chrono::system_clock::time_point time{std::chrono::milliseconds(1'700'000'000'123)};
  EXPECT_EQ(log_line(time, Severity::kWarning, "one\ntwo"), "2023-11-14T22:13:20.123Z warning  one\n    two\n");
}

TEST(RunLogTest, LinesBelowTheLevelAreLeftOutAndFilesAreAppendedTo) {
  const TemporaryFolder folder;
  { RunLog(folder / "log.txt", Severity::kInfo).info("first"); }
  RunLog log(folder / "log.txt", Severity::kWarning);
  log.info("unseen");
  log.warning("second");
  const std::string text = read_file(folder / "log.txt");
  EXPECT_THAT(text, ::testing::MatchesRegex(".*info +first\n.*warning +second\n"));
}

TEST(RunLogTest, WarningsReachTheListenerWhateverTheLevel) {
  const TemporaryFolder folder;
  std::vector<std::string> heard;
  RunLog log(folder / "log.txt", Severity::kError, [&](Severity, std::string_view text) { heard.emplace_back(text); });
  log.info("a");
  log.warning("b");
  log.error("c");
  EXPECT_THAT(heard, ::testing::ElementsAre("b", "c"));
}

TEST(RunLogTest, LinesOfSeveralThreadsStayWhole) {
  const TemporaryFolder folder;
  constexpr int kThreads = 4, kLines = 200;
  {
    RunLog log(folder / "log.txt", Severity::kInfo);
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&log, t] {
        for (int i = 0; i < kLines; ++i) log.info(std::string(50, static_cast<char>('a' + t)));
      });
    }
  }
  std::istringstream text(read_file(folder / "log.txt"));
  int lines = 0;
  for (std::string line; std::getline(text, line); ++lines) {
    ASSERT_EQ(line.substr(line.size() - 50), std::string(50, line.back()));
  }
  EXPECT_EQ(lines, kThreads * kLines);
}

TEST(RunLogTest, AFileThatCannotBeOpenedIsNamed) {
  EXPECT_THROW(RunLog("/nowhere/log.txt", Severity::kInfo), CheckpointError);
}

}  // namespace
}  // namespace tandem::app
