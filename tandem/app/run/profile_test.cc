#include "tandem/app/run/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tandem/base/atomic_file.h"
#include "tandem/base/json_reader.h"
#include "tandem/base/testing/temporary_folder.h"

namespace tandem::app {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

std::vector<std::string> words_of_line(const std::string& table, int number) {
  std::istringstream lines(table);
  std::string line;
  for (int i = 0; i <= number; ++i) std::getline(lines, line);
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

TEST(ProfileTest, TheTableHasSharesOfTheElapsedTimeLargestFirstAndTheRest) {
  const std::vector<ThreadTrace> threads{{.name = "replica0",
                                          .latest = {},
                                          .totals = {{.name = "rollout",
                                                      .total = milliseconds(300),
                                                      .own = milliseconds(100),
                                                      .longest = milliseconds(200),
                                                      .count = 2},
                                                     {.name = "act",
                                                      .total = milliseconds(200),
                                                      .own = milliseconds(200),
                                                      .longest = milliseconds(7),
                                                      .count = 100}}}};
  const std::string table = profile_table(threads, milliseconds(1000));
  EXPECT_THAT(words_of_line(table, 1),
              ::testing::ElementsAre("replica0", "act", "0.200", "20.0%", "0.200", "100", "2000.0", "7.000"));
  EXPECT_THAT(words_of_line(table, 2),
              ::testing::ElementsAre("replica0", "rollout", "0.100", "10.0%", "0.300", "2", "150000.0", "200.000"));
  EXPECT_THAT(words_of_line(table, 3), ::testing::ElementsAre("replica0", "(none", "of", "these)", "0.700", "70.0%"));
}

TEST(ProfileTest, FilesHaveTheSpansOfTheRunAndTheTextNamesThem) {
  const TemporaryFolder folder;
  const RunPaths paths{folder.path()};
  const Profile profile(paths);
  { const Span span("rollout"); }
  const std::string text = profile.finish();
  EXPECT_THAT(text, HasSubstr("rollout"));
  EXPECT_THAT(text, HasSubstr(paths.trace().string()));
  EXPECT_THAT(read_file(paths.profile()), HasSubstr("rollout"));
  EXPECT_EQ(read_json(read_file(paths.trace())).at("traceEvents").as_array().size(), 2U);
}

}  // namespace
}  // namespace tandem::app
