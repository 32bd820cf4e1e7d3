#include "tandem/app/launch/launch_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace tandem::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(LaunchReportTest, TheFirstFailureComesFirstWithItsLastLines) {
  EXPECT_EQ(failure_report({{.rank = 2,
                             .end = {.code = 7},
                             .after = std::chrono::milliseconds(1250),
                             .last_lines = {"loss 0.1", "out of data"}},
                            {.rank = 0, .end = {.signal = SIGTERM}},
                            {.rank = 1, .end = {.code = 3}}}),
            "tandem: the run failed: first, rank 2 ended with exit code 7 after 1.2 s\n"
            "  its last lines:\n"
            "    loss 0.1\n"
            "    out of data\n"
            "  then: rank 0 (SIGTERM), rank 1 (exit code 3)\n");
}

TEST(LaunchReportTest, WhoToldThatItFailedComesBeforeThoseThatEndedEarlier) {
  std::vector<RankFailure> failures{{.rank = 0, .end = {.code = 3}},
                                    {.rank = 2, .end = {.code = 3}, .last_lines = {"no"}}};
  put_first(2, failures);
  EXPECT_EQ(failure_report(failures, ToldFailure{2, "left by an exception: no"}),
            "tandem: the run failed: first, rank 2 ended with exit code 3 after 0.0 s\n"
            "  the first to fail was rank 2, which left by an exception: no\n"
            "  its last lines:\n"
            "    no\n"
            "  then: rank 0 (exit code 3)\n");
}

TEST(LaunchReportTest, OneFailureHasNoOthers) {
  EXPECT_EQ(failure_report({{.rank = 0, .end = {.signal = SIGSEGV}}}),
            "tandem: the run failed: rank 0 was ended by SIGSEGV after 0.0 s\n  it printed nothing\n");
}

TEST(LaunchReportTest, ManyOthersAreCounted) {
  std::vector<RankFailure> failures;
  for (int rank = 0; rank < 20; ++rank) failures.push_back({.rank = rank, .end = {.code = 1}});
  EXPECT_THAT(failure_report(failures), HasSubstr("rank 8 (exit code 1), and 11 more\n"));
  failures.resize(9);
  EXPECT_THAT(failure_report(failures), Not(HasSubstr("more")));
}

TEST(LaunchReportTest, OfTwoSeenTogetherTheOneThatLostAPeerIsTheLater) {
  const ProcessEnd killed{.signal = SIGKILL}, failed{.code = 70}, lost_a_peer{.code = 3};
  EXPECT_TRUE(is_likelier_cause(killed, failed));
  EXPECT_TRUE(is_likelier_cause(failed, lost_a_peer));
  EXPECT_FALSE(is_likelier_cause(lost_a_peer, killed));
}

TEST(LaunchReportTest, ASignalCountsAsInAShell) {
  EXPECT_EQ(ProcessEnd{.signal = SIGKILL}.exit_code(), 137);
  EXPECT_EQ(ProcessEnd{.code = 3}.exit_code(), 3);
}

}  // namespace
}  // namespace tandem::app
