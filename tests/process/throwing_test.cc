// One of several ranks throws: its own words come first, in the launcher's summary and in every other rank's error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tandem/base/text.h"
#include "tests/support/child.h"

namespace tandem::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
  std::string where, rank_says, others_learn;
};

const std::vector<Case> kCases{
    {"loader", "row 17 of the table is empty", "left by an exception; what it printed says which"},
    {"loss", "mat1 and mat2 shapes cannot be multiplied", "left by an exception; what it printed says which"},
    {"backward", "Trying to backward through the graph a second time",
     "left by an exception: Trying to backward through the graph a second time"},
    {"after", "row 17 of the table is empty", "left by an exception; what it printed says which"},
    {"uncaught", "row 17 of the table is empty", "was ended by std::terminate(): row 17 of the table is empty"},
};

// The lines that a rank printed through the launcher.
std::string lines_of_rank(const std::string& all, int rank) {
  std::istringstream in(all);
  std::string lines;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(concat("[", rank, "] "))) lines += line + "\n";
  }
  return lines;
}

class ThrowingTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ThrowingTest, TheCauseComesFirst) {
  int thrower = 0;
  for (const Case& its : kCases) {
    thrower = (thrower + 1) % 3;
    SCOPED_TRACE(concat(its.where, ", rank ", thrower));
    const Ended ended =
        run({TANDEM_PROGRAM,
             {"launch", "--ranks", "3", "--", THROWING_RANK, GetParam(), its.where, std::to_string(thrower)}});
    EXPECT_NE(ended.exit_code, 0);
    const std::size_t begin = ended.err.find("tandem: the run failed");
    ASSERT_NE(begin, std::string::npos) << ended.err;
    EXPECT_THAT(ended.err.substr(begin),
                AllOf(HasSubstr(concat("the run failed: first, rank ", thrower, " ")),
                      HasSubstr(concat("the first to fail was rank ", thrower, ", which ", its.others_learn)),
                      HasSubstr(its.rank_says), Not(HasSubstr("frame #"))));
    for (int rank = 0; rank < 3; ++rank) {
      const std::string lines = lines_of_rank(ended.err, rank);
      // A rank that the launcher ended before it came to its next collective says nothing.
      if (rank == thrower || lines.empty()) continue;
      EXPECT_THAT(lines, AllOf(HasSubstr(concat("rank ", thrower, " (process ")), HasSubstr(") " + its.others_learn)));
    }
  }
}

TEST_P(ThrowingTest, ARankThatEndsWithItsWorldHasFailedAlsoWithCodeZero) {
  const Ended ended = run({TANDEM_PROGRAM, {"launch", "--ranks", "2", "--", THROWING_RANK, GetParam(), "exit", "1"}});
  EXPECT_EQ(ended.exit_code, 3) << ended.how();
  EXPECT_THAT(ended.err, HasSubstr("the run failed: first, rank 1 ended with exit code 0 in the middle of its work"));
}

INSTANTIATE_TEST_SUITE_P(Groups, ThrowingTest, ::testing::Values("host", "tcp"));

}  // namespace
}  // namespace tandem::process_test
