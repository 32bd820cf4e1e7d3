#include <gtest/gtest.h>
#include <torch/types.h>

#include <limits>

#include "tandem/model/distribution/categorical.h"

namespace tandem::model {
namespace {

TEST(RowPickTest, AMaskGivesTheBitsOfGatherAndOfItsGradient) {
  torch::manual_seed(1);
  const at::Tensor rows = at::randn({5, 3, 7});
  rows[2][1].fill_(-std::numeric_limits<float>::infinity());  // what a mask of actions leaves
  const at::Tensor index = at::randint(7, {5, 3, 1}, at::kLong), slopes = at::randn({5, 3, 1});
  const auto gradient_of = [&](const auto& how, at::Tensor& picked) {
    const at::Tensor leaf = rows.clone().requires_grad_();
    const at::Tensor result = how(leaf);
    picked = result.detach();
    result.backward(slopes);
    return leaf.grad();
  };
  at::Tensor gathered, masked;
  const at::Tensor by_gather = gradient_of([&](const at::Tensor& leaf) { return leaf.gather(-1, index); }, gathered);
  const at::Tensor by_mask = gradient_of([&](const at::Tensor& leaf) { return pick_by_mask(leaf, index); }, masked);
  EXPECT_TRUE(masked.equal(gathered));
  EXPECT_TRUE(by_mask.equal(by_gather));
  EXPECT_TRUE(pick(rows, index).equal(gathered));
}

}  // namespace
}  // namespace tandem::model
