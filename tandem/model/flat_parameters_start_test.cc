// Passes that start with no gradients in place of zeros.
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "tandem/model/flat_parameters.h"

namespace tandem::model {
namespace {

struct TwoHeads : torch::nn::Module {
  TwoHeads() {
    torch::manual_seed(3);
    body = register_module("body", torch::nn::Linear(5, 7));
    left = register_module("left", torch::nn::Linear(7, 3));
    right = register_module("right", torch::nn::Linear(7, 1));
  }
  at::Tensor loss_left(double factor) { return left(torch::tanh(body(x * factor))).square().sum(); }
  at::Tensor loss_both() { return loss_left(1) + right(torch::tanh(body(x))).square().sum(); }
  const at::Tensor x = at::arange(10, at::kFloat).view({2, 5}).div(10);
  torch::nn::Linear body{nullptr}, left{nullptr}, right{nullptr};
};

struct Bound {
  explicit Bound(FlatParameters::Options::Start start)
      : net(std::make_shared<TwoHeads>()), flat(net, {.start = start}) {
    gradients = flat.make_gradients([](std::int64_t count, at::ScalarType dtype) { return at::empty({count}, dtype); });
  }
  std::shared_ptr<TwoHeads> net;
  FlatParameters flat;
  FlatParameters::Gradients gradients;
};

using Start = FlatParameters::Options::Start;

// The first step reaches all, so there is something left behind; the second leaves `right` out, and has two passes.
TEST(FlatParametersStartTest, GradientsThatAreWrittenFirstAreThoseThatAreAddedToZeros) {
  Bound zeros(Start::kZeros), nothing(Start::kNothing);
  for (Bound* each : {&zeros, &nothing}) {
    each->flat.bind(each->gradients);
    each->net->loss_both().backward();
    each->flat.collect();
  }
  EXPECT_TRUE(zeros.gradients.flat[0].equal(nothing.gradients.flat[0]));
  for (Bound* each : {&zeros, &nothing}) {
    each->flat.bind(each->gradients);
    each->net->loss_left(1).backward();
    each->net->loss_left(2).backward();
    each->flat.collect();
  }
  EXPECT_TRUE(zeros.gradients.flat[0].equal(nothing.gradients.flat[0]));
  EXPECT_EQ(nothing.gradients.presence[0].sum().item<float>(), 4) << "of six parameters";
  EXPECT_GT(nothing.gradients.flat[0].abs().sum().item<float>(), 4);
}

TEST(FlatParametersStartTest, AGradientIsUndefinedUntilAPassMakesItAndInFlatMemoryFromThenOn) {
  Bound bound(Start::kNothing);
  const at::Tensor weight = bound.net->body->weight;
  for (int step = 0; step < 2; ++step) {
    bound.flat.bind(bound.gradients);
    EXPECT_FALSE(weight.grad().defined());
    bool is_told = false;
    bound.flat.on_reached([&](std::size_t, std::size_t slot) {
      if (bound.flat.buffers()[0].slots[slot].name != "body.weight") return;
      is_told = bound.gradients.views[0][slot].abs().sum().item<float>() > 0 &&
                weight.grad().is_same(bound.gradients.views[0][slot]);
    });
    bound.net->loss_left(1).backward();
    bound.flat.on_reached({});
    EXPECT_TRUE(is_told);
    EXPECT_FALSE(bound.net->right->weight.grad().defined());
    bound.flat.collect();
  }
}

TEST(FlatParametersStartTest, AGradientOfAnEarlierStepThatIsPutBackCountsForNothing) {
  Bound bound(Start::kNothing);
  bound.flat.bind(bound.gradients);
  bound.net->loss_both().backward();
  bound.flat.collect();
  const at::Tensor aside = bound.net->right->weight.grad();
  bound.flat.bind(bound.gradients);
  bound.net->loss_left(1).backward();
  bound.net->right->weight.mutable_grad() = aside;
  bound.flat.collect();
  EXPECT_EQ(bound.gradients.presence[0].sum().item<float>(), 4) << "of six parameters";
  EXPECT_EQ(aside.abs().sum().item<float>(), 0) << "others may have a gradient there, to which it would be added";
}

}  // namespace
}  // namespace tandem::model
