#include "tandem/base/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tandem/base/clock.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"

namespace tandem {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ProcessStatsTest, ThePeakGrowsWithMemoryThatIsTouchedAndStays) {
  const double before = peak_rss_mb();
  EXPECT_GT(before, 1);
  { const std::vector<char> memory(100'000'000, 1); }
  const double after = peak_rss_mb();
  EXPECT_GE(after, 100);
  EXPECT_LT(after, before + 2000);
  EXPECT_GE(peak_rss_mb(), after);
}

TEST(ProcessStatsTest, TimeSinceTheStartRunsAsTheClockDoes) {
  const Clock::time_point start = Clock::now();
  const double before = seconds_since_process_start();
  EXPECT_GT(before, -0.02);  // the start is known to a tick of 10 ms
  EXPECT_LT(before, 3600);
  std::this_thread::sleep_for(50ms);
  const double passed = seconds_since_process_start() - before;
  EXPECT_GE(passed, 0.049);
  EXPECT_LE(passed, seconds_since(start) + 0.001);
}

TEST(ProcessStatsTest, AForkedProcessHasAStartOfItsOwn) {
  while (seconds_since_process_start() < 0.05) std::this_thread::sleep_for(10ms);
  const Clock::time_point before = Clock::now();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(seconds_since_process_start() <= seconds_since(before) + 0.02 ? 0 : 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(OpenFilesTest, TheLimitIsRaisedAsFarAsTheSystemLetsIt) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit limit{.rlim_cur = 64, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  allow_open_files(60);
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, 64U) << "as many as needed";
  allow_open_files(100);
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, 100U);
  EXPECT_THAT(message_of<RunError>([&] { allow_open_files(before.rlim_max + std::uint64_t{1}); }),
              AllOf(HasSubstr("may have 100 open files"), HasSubstr("ulimit -n")));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(ProcessStatsTest, ThreadTimeCountsWorkAndNotSleep) {
  const double before = thread_cpu_seconds();
  std::this_thread::sleep_for(50ms);
  EXPECT_LT(thread_cpu_seconds() - before, 0.02);
  // Ends only because this thread's own time moves.
  while (thread_cpu_seconds() - before < 0.03) {
  }
  std::jthread([] { EXPECT_LT(thread_cpu_seconds(), 0.03); }).join();
}

}  // namespace
}  // namespace tandem
