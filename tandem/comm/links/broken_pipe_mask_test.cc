#include "tandem/comm/links/broken_pipe_mask.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

namespace tandem::comm {
namespace {

TEST(BrokenPipeMaskTest, AWriteToNobodyFailsAndDoesNotEndTheProcess) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ::close(ends[0]);
  {
    const BrokenPipeMask outer;
    const BrokenPipeMask inner;
    EXPECT_EQ(::write(ends[1], "x", 1), -1);
    EXPECT_EQ(errno, EPIPE);
  }
  ::close(ends[1]);
  sigset_t now;
  pthread_sigmask(SIG_BLOCK, nullptr, &now);
  EXPECT_EQ(sigismember(&now, SIGPIPE), 0);
}

}  // namespace
}  // namespace tandem::comm
