#include "idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tandem/base/error.h"

namespace fashion_mnist {
namespace {

std::vector<std::byte> two_by_three() {
  std::vector<std::byte> bytes;
  for (const int value : {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 10, 11, 12, 13, 14, 15})
    bytes.push_back(std::byte(value));
  return bytes;
}

TEST(IdxTest, ElementsComeInRowMajorOrder) {
  const torch::Tensor tensor = parse_idx(two_by_three(), "test");
  EXPECT_TRUE(torch::equal(tensor, torch::arange(10, 16, torch::kByte).reshape({2, 3})));
}

TEST(IdxTest, EveryTruncationIsRefusedByName) {
  const std::vector<std::byte> bytes = two_by_three();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW((void)parse_idx(std::span<const std::byte>(bytes).first(length), "test"), tandem::DataError) << length;
  }
}

TEST(IdxTest, WhatIsNoArrayOfBytesIsRefusedWithTheReason) {
  const auto refusal = [](std::size_t at, int value) -> std::string {
    std::vector<std::byte> bytes = two_by_three();
    bytes[at] = std::byte(value);
    try {
      (void)parse_idx(bytes, "images");
    } catch (const tandem::DataError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal(0, 31), ::testing::AllOf(::testing::HasSubstr("images"), ::testing::HasSubstr("two zero bytes")));
  EXPECT_THAT(refusal(2, 13), ::testing::HasSubstr("element type is 13"));
  EXPECT_THAT(refusal(3, 9), ::testing::HasSubstr("9 dimensions"));
  EXPECT_THAT(refusal(4, 255), ::testing::HasSubstr("elements"));
}

}  // namespace
}  // namespace fashion_mnist
