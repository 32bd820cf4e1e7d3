#include "tandem/app/run/rollout_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/temporary_folder.h"

namespace tandem::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string fault_of(const std::string& text) {
  try {
    (void)read_rollouts(text, "r.jsonl", 2, 10);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(RolloutRecordTest, WhatWasWrittenIsReadBack) {
  const TemporaryFolder folder;
  const auto path = folder / "rollouts.jsonl";
  {
    RolloutRecord record(path, 0);
    record.append(1, std::vector{10, 7});
    record.append(2, std::vector{9, 10});
  }
  EXPECT_THAT(read_rollouts(read_file(path), "r", 2, 10), ElementsAre(ElementsAre(10, 7), ElementsAre(9, 10)));
}

TEST(RolloutRecordTest, ARunThatGoesOnCutsOffWhatItMakesAnew) {
  const TemporaryFolder folder;
  const auto path = folder / "rollouts.jsonl";
  {
    RolloutRecord record(path, 0);
    for (int update = 1; update <= 3; ++update) record.append(update, std::vector{update});
  }
  RolloutRecord(path, 1).append(2, std::vector{8});
  EXPECT_THAT(read_rollouts(read_file(path), "r", 1, 10), ElementsAre(ElementsAre(1), ElementsAre(8)));
}

TEST(RolloutRecordTest, WhatCannotBeFollowedIsRefusedWithItsLine) {
  EXPECT_THAT(fault_of(""), HasSubstr("r.jsonl records no update"));
  EXPECT_THAT(fault_of("{\"updates\":1,\"steps\":[1,2]}\n{\"updates\":3,\"steps\":[1,2]}\n"),
              HasSubstr("r.jsonl, line 2: it is of update 3"));
  EXPECT_THAT(fault_of("{\"updates\":1,\"steps\":[1,2,3]}\n"), HasSubstr("it has 3 env groups; here there are 2"));
  EXPECT_THAT(fault_of("{\"updates\":1,\"steps\":[1,11]}\n"), HasSubstr("a group made 11 steps"));
  EXPECT_THAT(fault_of("{\"updates\":1,\"steps\":[1,-1]}\n"), HasSubstr("a group made -1 steps"));
  EXPECT_THAT(fault_of("{\"updates\":1,\"steps\":[0,0]}\n"), HasSubstr("no group made a step"));
  EXPECT_EQ(fault_of("{\"updates\":1,\"steps\":[1,0]}\n"), "");
  EXPECT_THAT(fault_of("steps\n"), HasSubstr("line 1"));
}

}  // namespace
}  // namespace tandem::app
