#include "tandem/app/run/stop_signals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/app/exit_code.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/eventually.h"

namespace tandem::app {
namespace {

TEST(StopSignalsTest, TheFirstSignalRequestsAStop) {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP}) {
    const StopSignals signals;
    EXPECT_FALSE(signals.token().stop_requested());
    ASSERT_EQ(::raise(signal), 0);
    EXPECT_TRUE(eventually([&] { return signals.token().stop_requested(); }));
    EXPECT_EQ(signals.first(), signal);
    EXPECT_EQ(signals.asked(), signal == SIGUSR1 ? StopRequest::kRequeue : StopRequest::kEnd);
  }
}

TEST(StopSignalsTest, ARequeueOnceAskedForPrevails) {
  for (const auto& [first, second] : {std::pair{SIGTERM, SIGUSR1}, std::pair{SIGUSR1, SIGTERM}}) {
    const StopSignals signals;
    EXPECT_EQ(signals.asked(), StopRequest::kNone);
    EXPECT_EQ(signals.first(), 0);
    ASSERT_EQ(::raise(first), 0);
    ASSERT_EQ(::raise(second), 0);
    EXPECT_EQ(signals.asked(), StopRequest::kRequeue);
    EXPECT_EQ(signals.first(), first);
  }
}

// How a process ends that gets these signals and then, if it is still there, exits with 0.
int exit_code_after(const std::vector<int>& numbers, std::chrono::milliseconds between) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(STDERR_FILENO);
    {
      const StopSignals signals;
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (i > 0) std::this_thread::sleep_for(between);
        ::raise(numbers[i]);
      }
    }
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(StopSignalsTest, CtrlCAfterAnotherSignalEndsTheProcessAtOnce) {
  for (const int first : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP})
    EXPECT_EQ(exit_code_after({first, SIGINT}, std::chrono::milliseconds(350)), static_cast<int>(ExitCode::kStopped));
}

TEST(StopSignalsTest, ALastActIsDoneBeforeTheProcessIsEndedAtOnceAndOneMoreCtrlCDoesNotWaitForIt) {
  for (const bool returns : {true, false}) {
    std::array<int, 2> said{};
    ASSERT_EQ(::pipe(said.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(STDERR_FILENO);
      const StopSignals signals([&] {
        if (::write(said[1], "x", 1) != 1) ::_exit(1);
        while (!returns) ::pause();
      });
      for (;;) {
        ::raise(SIGINT);
        std::this_thread::sleep_for(std::chrono::milliseconds(350));
      }
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(ExitCode::kStopped));
    ::close(said[1]);
    char what = 0, more = 0;
    EXPECT_EQ(::read(said[0], &what, 1), 1);
    EXPECT_EQ(::read(said[0], &more, 1), 0) << "once";
    ::close(said[0]);
  }
}

TEST(StopSignalsTest, OthersMayComeAgainAndAnyAtTheSameTime) {
  EXPECT_EQ(exit_code_after({SIGINT, SIGTERM, SIGUSR1, SIGTERM, SIGUSR2}, std::chrono::milliseconds(350)), 0);
  EXPECT_EQ(exit_code_after({SIGINT, SIGINT, SIGINT}, std::chrono::milliseconds(0)), 0);
}

TEST(StopSignalsTest, AfterwardsTheProcessEndsAsItWould) {
  const pid_t child = ::fork();
  if (child == 0) {
    { const StopSignals signals; }
    for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP}) ::raise(number);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
}

TEST(StopSignalsTest, AfterwardsHandlersOfOthersAreBack) {
  static volatile std::sig_atomic_t seen = 0;
  const auto before = std::signal(SIGTERM, [](int) { seen = 1; });
  { const StopSignals signals; }
  ASSERT_EQ(::raise(SIGTERM), 0);
  EXPECT_EQ(seen, 1);
  std::signal(SIGTERM, before);
}

// A library that takes them over does not keep a stop from the run.
TEST(StopSignalsTest, AreTakenBack) {
  const StopSignals signals;
  EXPECT_TRUE(signals.take_back().empty());
  std::signal(SIGTERM, SIG_IGN);
  std::signal(SIGHUP, SIG_DFL);
  EXPECT_EQ(signals.take_back(), (std::vector{SIGTERM, SIGHUP}));
  ASSERT_EQ(::raise(SIGHUP), 0);
  EXPECT_EQ(signals.first(), SIGHUP);
}

TEST(StopSignalsTest, AHangupThatIsIgnoredFromTheStartStaysSo) {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  {
    const StopSignals signals;
    EXPECT_TRUE(signals.take_back().empty());
    ASSERT_EQ(::raise(SIGHUP), 0);
    EXPECT_EQ(signals.first(), 0);
  }
  std::signal(SIGHUP, SIG_DFL);
  { const StopSignals signals; }
  const StopSignals next;  // what the one before left behind does not look like nohup
  ASSERT_EQ(::raise(SIGHUP), 0);
  EXPECT_EQ(next.first(), SIGHUP);
  std::signal(SIGHUP, before);
}

TEST(StopSignalsTest, ThereIsOneAtATime) {
  const StopSignals signals;
  EXPECT_THROW(StopSignals(), InvariantError);
}

}  // namespace
}  // namespace tandem::app
