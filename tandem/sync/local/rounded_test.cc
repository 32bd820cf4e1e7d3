#include "tandem/sync/local/rounded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "tandem/base/error.h"

namespace tandem::sync {
namespace {

torch::Tensor passed(const torch::Tensor& values, Wire wire) {
  return unrounded(rounded(values, wire), values.numel(), wire);
}

TEST(RoundedTest, MultiplesOfABlocksScaleTravelExactly) {
  const torch::Tensor eight = torch::arange(-127, 128, torch::kFloat) * 0.5F;
  EXPECT_TRUE(torch::equal(passed(eight, Wire::kInt8), eight));
  const torch::Tensor four = torch::arange(-7, 8, torch::kFloat) * 0.25F;
  EXPECT_TRUE(torch::equal(passed(four, Wire::kInt4), four));
}

// 600 elements are three blocks, the last one with gaps.
TEST(RoundedTest, AnElementIsWrongByHalfItsBlocksScaleAtMost) {
  torch::Tensor values = torch::sin(torch::arange(600, torch::kFloat));
  values.narrow(0, 256, 256).mul_(1e-6);
  for (const auto& [wire, largest] : {std::pair{Wire::kInt8, 127.0}, std::pair{Wire::kInt4, 7.0}}) {
    const torch::Tensor wrong = (passed(values, wire) - values).abs();
    EXPECT_EQ(wrong.numel(), 600);
    EXPECT_LE(wrong.max().item<double>(), 0.5001 / largest);
    EXPECT_GT(wrong.max().item<double>(), 0.1 / largest);
    EXPECT_LE(wrong.narrow(0, 256, 256).max().item<double>(), 1e-6 * 0.5001 / largest);
  }
}

TEST(RoundedTest, TheBytesAreAFourthAndAnEighthOfFloats) {
  EXPECT_EQ(rounded_bytes(2560, Wire::kInt8), 2560 + 10 * 4);
  EXPECT_EQ(rounded_bytes(2560, Wire::kInt4), 1280 + 10 * 4);
  for (const Wire wire : {Wire::kInt8, Wire::kInt4})
    EXPECT_EQ(rounded(torch::ones({2560}), wire).numel(), rounded_bytes(2560, wire));
}

TEST(RoundedTest, ZerosStayZeros) {
  for (const Wire wire : {Wire::kInt8, Wire::kInt4})
    EXPECT_TRUE(torch::equal(passed(torch::zeros({5}), wire), torch::zeros({5})));
}

TEST(RoundedTest, BytesOfAnotherLengthAreRefused) {
  const torch::Tensor bytes = rounded(torch::ones({300}), Wire::kInt8);
  for (const torch::Tensor& wrong : {bytes.narrow(0, 0, 5), torch::zeros({520}, torch::kFloat)}) {
    try {
      (void)unrounded(wrong, 300, Wire::kInt8);
      ADD_FAILURE() << "taken";
    } catch (const RunError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("for 300 rounded elements, which are 520 bytes"));
    }
  }
}

}  // namespace
}  // namespace tandem::sync
