#include "tandem/model/autocast.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "tandem/base/error.h"

namespace tandem::model {
namespace {

TEST(AutocastTest, ForwardIsInBfloat16AndGradientsAreInFloat) {
  torch::nn::Linear layer(4, 3);
  torch::Tensor out;
  {
    const Autocast autocast({});
    out = layer(torch::ones({2, 4}));
  }
  EXPECT_EQ(out.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(layer(torch::ones({2, 4})).scalar_type(), torch::kFloat) << "the scope has ended";
  out.to(torch::kFloat).sum().backward();
  EXPECT_EQ(layer->weight.grad().scalar_type(), torch::kFloat);
  EXPECT_TRUE(torch::equal(layer->weight.grad(), torch::full({3, 4}, 2.0)));
}

// A cast that outlived its scope would still be of the shorter type before.
TEST(AutocastTest, TheNextScopeCastsAnew) {
  torch::nn::Linear layer(4, 3);
  const auto type_in = [&layer](torch::ScalarType dtype) {
    const Autocast autocast({.dtype = dtype});
    return layer(torch::ones({2, 4})).scalar_type();
  };
  EXPECT_EQ(type_in(torch::kBFloat16), torch::kBFloat16);
  EXPECT_EQ(type_in(torch::kHalf), torch::kHalf);
}

// A cast that outlived its scope would be of the weights before the change.
TEST(AutocastTest, TheNextScopeSeesChangedWeights) {
  torch::nn::Linear layer(torch::nn::LinearOptions(4, 3).bias(false));
  auto forward = [&layer] {
    const Autocast autocast({});
    return layer(torch::ones({2, 4})).to(torch::kFloat);
  };
  forward();
  {
    const torch::NoGradGuard no_grad;
    layer->weight.fill_(2);
  }
  EXPECT_TRUE(torch::equal(forward(), torch::full({2, 3}, 8.0)));
}

TEST(AutocastTest, AnInnerScopeGivesBackTheOuterOne) {
  const Autocast outer({});
  {
    const Autocast inner({.dtype = torch::kHalf});
    EXPECT_EQ(at::autocast::get_autocast_dtype(torch::kCPU), torch::kHalf);
  }
  EXPECT_EQ(at::autocast::get_autocast_dtype(torch::kCPU), torch::kBFloat16);
  EXPECT_TRUE(at::autocast::is_autocast_enabled(torch::kCPU));
}

TEST(AutocastTest, OtherTypesAreRefused) { EXPECT_THROW(Autocast({.dtype = torch::kDouble}), ConfigError); }

}  // namespace
}  // namespace tandem::model
