#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "tandem/base/error.h"
#include "tandem/model/norm.h"

namespace tandem::model {
namespace {

constexpr std::int64_t kCount = 3 * kNormBlock + 1000;

torch::Tensor values_of(torch::ScalarType dtype) {
  torch::manual_seed(7);
  return torch::randn({kCount}, torch::kDouble).mul(torch::linspace(1e-3, 1e3, kCount, torch::kDouble)).to(dtype);
}

// Cut within blocks, at their borders and across several, from both ends; and again afterwards with other values.
TEST(SumOfSquaresByPartsTest, HasTheBitsOfTheWholeInWhateverPartsItComes) {
  const std::vector<std::vector<std::int64_t>> cuts{{0, kCount},
                                                    {0, 10, kNormBlock - 1, kNormBlock, 3 * kNormBlock, kCount},
                                                    {0, kNormBlock + 1, 2 * kNormBlock + 17, kCount - 1, kCount}};
  for (const torch::ScalarType dtype : {torch::kFloat, torch::kDouble}) {
    const torch::Tensor flat = values_of(dtype);
    SumOfSquaresByParts sum(flat);
    for (const std::vector<std::int64_t>& cut : cuts) {
      flat.mul_(1.7);
      sum.begin();
      for (std::size_t i = 0; i + 1 < cut.size(); i += 2) sum.take(cut[i], cut[i + 1]);
      for (std::size_t i = (cut.size() - 1) / 2 * 2; i-- > 0;) {
        if (i % 2 == 1 && i + 1 < cut.size()) sum.take(cut[i], cut[i + 1]);
      }
      EXPECT_EQ(sum.sum(), sum_of_squares(flat)) << cut.size();
    }
  }
}

// It is what makes the time at the end short.
TEST(SumOfSquaresByPartsTest, ABlockIsSummedWhenItIsWholeAndNotAtTheEnd) {
  const torch::Tensor flat = values_of(torch::kFloat);
  const double expected = sum_of_squares(flat);
  SumOfSquaresByParts sum(flat);
  sum.take(kNormBlock + 5, kCount);
  flat.narrow(0, 2 * kNormBlock, kCount - 2 * kNormBlock).fill_(1e6F);
  sum.take(0, kNormBlock + 5);
  EXPECT_EQ(sum.sum(), expected);
}

TEST(SumOfSquaresByPartsTest, WhatIsMissingOrComesTwiceIsADefect) {
  SumOfSquaresByParts sum(values_of(torch::kFloat));
  sum.take(0, kNormBlock + 1);
  EXPECT_THROW((void)sum.sum(), InvariantError);
  EXPECT_THROW(sum.take(kNormBlock, kCount), InvariantError);
}

}  // namespace
}  // namespace tandem::model
