#include "tandem/device/recorded_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"

namespace tandem::device {
namespace {

using ::testing::HasSubstr;

TEST(RecordedWorkTest, OnTheCpuEachReplayDoesTheWorkAgain) {
  int times = 0;
  EXPECT_EQ(why_not_recorded(c10::kCPU), "");
  const auto work = record_work(c10::kCPU, [&times] { ++times; });
  EXPECT_EQ(times, 0) << "recording is not doing";
  work->replay();
  work->replay();
  EXPECT_EQ(times, 2);
}

TEST(RecordedWorkTest, AnotherKindOfDeviceIsRefusedByName) {
  const c10::Device meta(c10::kMeta);
  EXPECT_THAT(why_not_recorded(meta), HasSubstr("meta"));
  try {
    (void)record_work(meta, [] {});
    FAIL() << "work on meta was recorded";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("work on meta cannot be recorded"));
  }
}

}  // namespace
}  // namespace tandem::device
