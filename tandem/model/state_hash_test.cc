#include "tandem/model/state_hash.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "tandem/base/digest/sha256.h"
#include "tandem/base/error.h"

namespace tandem::model {
namespace {

TEST(StateHashTest, BytesAreThoseOfMemoryInIndexOrder) {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const auto expected = sha256_hex(std::as_bytes(std::span(values)));
  const at::Tensor matrix = at::tensor(values).view({2, 3});
  EXPECT_EQ(bytes_sha256({{"m", matrix}}), expected);
  EXPECT_EQ(bytes_sha256({{"m", matrix.t().contiguous().t()}}), expected);  // other strides, same elements
  EXPECT_EQ(bytes_sha256({{"a", matrix[0]}, {"b", matrix[1]}}), expected);
  EXPECT_NE(bytes_sha256({{"b", matrix[1]}, {"a", matrix[0]}}), expected);
}

TEST(StateHashTest, TheStateIsTakenByNameAndSeesEveryDifference) {
  const at::Tensor a = at::tensor({1.F, 2.F}), b = at::tensor({3, 4}, at::kLong);
  const auto hash = state_sha256({{"a", a}, {"b", b}});
  EXPECT_EQ(hash.size(), 64U);
  EXPECT_EQ(state_sha256({{"b", b}, {"a", a}}), hash);
  EXPECT_NE(state_sha256({{"a", a}, {"c", b}}), hash);
  EXPECT_NE(state_sha256({{"a", a.view({2, 1})}, {"b", b}}), hash);
  EXPECT_NE(state_sha256({{"a", a.view({2, 1})}}), state_sha256({{"a", a.view({1, 2})}}));
  EXPECT_NE(state_sha256({{"a", a.view(at::kInt)}, {"b", b}}), hash);  // same bytes, another dtype
  at::Tensor changed = a.clone();
  changed.view(at::kInt)[1] += 1;
  EXPECT_NE(state_sha256({{"a", changed}, {"b", b}}), hash);
  EXPECT_NE(state_sha256({{"a", a}}), hash);
}

TEST(StateHashTest, ANameThatComesTwiceIsADefect) {
  EXPECT_THROW((void)state_sha256({{"a", at::ones({1})}, {"a", at::ones({1})}}), InvariantError);
}

TEST(StateHashTest, ParametersOfAModuleComeInItsOrder) {
  torch::nn::Sequential net(torch::nn::Linear(2, 3), torch::nn::Linear(3, 1));
  const auto named = named_parameters_of(*net);
  ASSERT_EQ(named.size(), 4U);
  EXPECT_EQ(named[2].first, "1.weight");
  EXPECT_TRUE(named[2].second.is_same(net->parameters()[2]));
}

}  // namespace
}  // namespace tandem::model
