#include "tandem/model/norm.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

namespace tandem::model {
namespace {

at::Tensor numbers(std::int64_t count, at::ScalarType dtype = at::kFloat) {
  const at::Tensor i = at::arange(count, at::kDouble);
  return (i * 0.7391).sin().mul(i.remainder(11) + 1).to(dtype);
}

TEST(NormTest, SumsOfSquaresAreRight) {
  for (const std::int64_t count : {0, 1, 15, 16, 17, 31, 33, 1000, 65536, 65537, 200000}) {
    for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
      const at::Tensor flat = numbers(count, dtype);
      const double expected = flat.to(at::kDouble).square().sum().item<double>();
      EXPECT_NEAR(sum_of_squares(flat), expected, 1e-12 * expected) << count << " " << dtype;
    }
  }
}

TEST(NormTest, TheBitsDependNeitherOnAlignmentNorOnTheThread) {
  const at::Tensor flat = numbers(3 * kNormBlock + 77);
  const double expected = sum_of_squares(flat);
  for (const std::int64_t shift : {1, 3, 7, 16}) {
    const at::Tensor moved = at::empty({flat.numel() + shift}).narrow(0, shift, flat.numel());
    moved.copy_(flat);
    double found = 0;
    std::thread([&] { found = sum_of_squares(moved); }).join();
    EXPECT_EQ(found, expected) << shift;
  }
}

TEST(NormTest, PartsCutAtBlockBordersGiveTheBitsOfTheWhole) {
  const at::Tensor flat = numbers(7 * kNormBlock + 5);
  std::vector<double> sums;
  for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, 3 * kNormBlock},
                                   {3 * kNormBlock, 4 * kNormBlock},
                                   {4 * kNormBlock, flat.numel()}}) {
    for (const double sum : block_sums_of_squares(flat.narrow(0, begin, end - begin))) sums.push_back(sum);
  }
  EXPECT_EQ(sums.size(), 8U);
  EXPECT_EQ(sum_of_blocks(sums), sum_of_squares(flat));
}

TEST(NormTest, TheFirstHalfOfTheTreeTakesTheOddOne) {
  // 1e16 + 1 loses the 1, so the order shows: ((1e16 + 1) + 1) + (1 + -1e16) against other trees.
  const std::vector<double> values{1e16, 1, 1, 1, -1e16};
  EXPECT_EQ(sum_of_blocks(values), ((1e16 + 1.0) + 1.0) + (1.0 + -1e16));
  EXPECT_EQ(sum_of_blocks(std::vector<double>{1, 2, 4, 8, 16, 32, 64, 128, 256}), 511);
  EXPECT_EQ(sum_of_blocks({}), 0);
  EXPECT_NE(sum_of_blocks(values), (1e16 + 1.0) + ((1.0 + 1.0) + -1e16));
}

TEST(NormTest, NanAndInfinityPassThrough) {
  at::Tensor flat = numbers(70000);
  flat[66000] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isinf(sum_of_squares(flat)));
  flat[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(sum_of_squares(flat)));
}

TEST(NormTest, LargeFloatsDoNotOverflow) { EXPECT_NEAR(sum_of_squares(at::full({100}, 1e30F)), 1e62, 1e56); }

}  // namespace
}  // namespace tandem::model
