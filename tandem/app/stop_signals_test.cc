#include "tandem/app/stop_signals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tandem/app/exit_code.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/eventually.h"

namespace tandem::app {
namespace {

TEST(StopSignalsTest, TheFirstSignalRequestsAStop) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const StopSignals signals;
    EXPECT_FALSE(signals.token().stop_requested());
    ASSERT_EQ(::raise(signal), 0);
    EXPECT_TRUE(eventually([&] { return signals.token().stop_requested(); }));
  }
}

TEST(StopSignalsTest, TheSecondSignalEndsTheProcessAtOnce) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(STDERR_FILENO);
    const StopSignals signals;
    ::raise(SIGINT);
    ::raise(SIGINT);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(ExitCode::kStopped));
}

TEST(StopSignalsTest, AfterwardsSignalsDoWhatTheyDidBefore) {
  static volatile std::sig_atomic_t seen = 0;
  const auto before = std::signal(SIGTERM, [](int) { seen = 1; });
  { const StopSignals signals; }
  ASSERT_EQ(::raise(SIGTERM), 0);
  EXPECT_EQ(seen, 1);
  std::signal(SIGTERM, before);
}

TEST(StopSignalsTest, ThereIsOneAtATime) {
  const StopSignals signals;
  EXPECT_THROW(StopSignals(), InvariantError);
}

}  // namespace
}  // namespace tandem::app
