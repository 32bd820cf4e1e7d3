#include "tandem/device/device_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"

namespace tandem::device {
namespace {

using ::testing::HasSubstr;

std::string refusal(const char* text) {
  try {
    (void)parse_device_set(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(DeviceSetTest, CpuDevicesAreVirtualAndCounted) {
  EXPECT_EQ(parse_device_set("cpu").size(), 1u);
  EXPECT_EQ(parse_device_set("cpu:3").size(), 3u);
  EXPECT_EQ(to_string(parse_device_set("cpu:3")), "cpu:3");
}

TEST(DeviceSetTest, WhatIsNoDeviceSetIsRefusedByName) {
  EXPECT_THAT(refusal("cpu:0"), HasSubstr("'0' CPU replicas"));
  EXPECT_THAT(refusal("cpu:"), HasSubstr("ends after the colon"));
  EXPECT_THAT(refusal("cpu:-1"), HasSubstr("'-1'"));
  EXPECT_THAT(refusal("cpu:2x"), HasSubstr("'2x'"));
  EXPECT_THAT(refusal("cpu:99999"), HasSubstr("1 to 1024"));
  EXPECT_THAT(refusal("tpu:1"), HasSubstr("'tpu:1' is not a device set"));
  EXPECT_THAT(refusal(""), HasSubstr("use cpu:N"));
}

// On a machine with CUDA the tests with the label gpu take its devices instead.
TEST(DeviceSetTest, CudaThatIsNotThereIsRefusedWithTheCause) {
  const std::string message = refusal("cuda:0");
  if (message == "accepted") return SUCCEED();
  EXPECT_THAT(message, ::testing::AllOf(HasSubstr("CUDA was asked for"), HasSubstr("cpu:N")));
}

}  // namespace
}  // namespace tandem::device
