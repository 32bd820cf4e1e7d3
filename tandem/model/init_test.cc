#include "tandem/model/init.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>
#include <torch/utils.h>

#include <cmath>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/model/shard_random.h"

namespace tandem::model {
namespace {

TEST(InitTest, OrthogonalMatricesAreOrthonormalTimesTheGain) {
  at::Generator generator = make_shard_generator(3, 0);
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{{64, 64}, {64, 4}, {2, 64}, {16, 4, 3, 3}, {1, 1}}) {
    at::Tensor weight = at::empty(shape, at::kDouble);
    init_orthogonal(weight, 3, generator);
    const at::Tensor matrix = weight.reshape({shape[0], -1});
    const at::Tensor wide = matrix.size(0) <= matrix.size(1) ? matrix : matrix.t();
    const at::Tensor product = wide.matmul(wide.t());
    EXPECT_LT((product - 9 * at::eye(wide.size(0), at::kDouble)).abs().max().item<double>(), 1e-12)
        << at::IntArrayRef(shape);
  }
}

// Half the entries of Q are negative and det is +1 or -1 alike; a QR without the sign correction would not be.
TEST(InitTest, OrthogonalMatricesAreUniform) {
  at::Generator generator = make_shard_generator(4, 0);
  double trace = 0;
  int mirrored = 0;
  constexpr int kDraws = 2000;
  for (int i = 0; i < kDraws; ++i) {
    at::Tensor weight = at::empty({4, 4}, at::kDouble);
    init_orthogonal(weight, 1, generator);
    trace += weight.trace().item<double>();
    mirrored += at::linalg_det(weight).item<double>() < 0 ? 1 : 0;
  }
  EXPECT_LT(std::abs(trace / kDraws), 4 / std::sqrt(kDraws));  // variance of the trace is 1
  EXPECT_LT(std::abs(mirrored - kDraws / 2), 4 * std::sqrt(kDraws) / 2);
}

TEST(InitTest, ValuesDependOnTheGeneratorAlone) {
  const auto draw = [] {
    at::Generator generator = make_shard_generator(5, 0);
    at::Tensor weight = at::empty({33, 20}), bias = at::empty({33});
    init_orthogonal(weight, 1, generator);
    at::Tensor other = at::empty({33, 20});
    init_uniform_fan_in(other, bias, generator);
    return at::cat({weight.flatten(), other.flatten(), bias});
  };
  const at::Tensor expected = draw();
  (void)at::rand({5});
  at::Tensor on_thread;
  std::thread([&] { on_thread = draw(); }).join();
  EXPECT_TRUE(on_thread.equal(expected));
}

TEST(InitTest, UniformFanInIsTorchsDefault) {
  // Both draw weight and bias in this order, so torch's layer has the numbers of its generator.
  const auto theirs = build_seeded(21, [] { return torch::nn::Conv2d(3, 8, 5); });
  torch::nn::Conv2d ours(3, 8, 5);
  at::Generator generator = at::detail::createCPUGenerator();
  seed_generator(generator, 21);
  init_uniform_fan_in(ours->weight, ours->bias, generator);
  EXPECT_TRUE(ours->weight.allclose(theirs->weight, 1e-6, 1e-8));
  EXPECT_TRUE(ours->bias.allclose(theirs->bias, 1e-6, 1e-8));
  EXPECT_TRUE(ours->weight.requires_grad());
}

TEST(InitTest, BuildSeededDecidesEveryNumberAndLeavesTheDefaultGeneratorAlone) {
  const auto make = [] { return torch::nn::Sequential(torch::nn::Linear(3, 4), torch::nn::LSTM(4, 2)); };
  torch::manual_seed(1);
  const at::Tensor next = at::rand({3});
  torch::manual_seed(1);
  const auto first = build_seeded(9, make);
  EXPECT_TRUE(at::rand({3}).equal(next));
  const auto second = build_seeded(9, make), other = build_seeded(10, make);
  for (std::size_t i = 0; i < first->parameters().size(); ++i) {
    EXPECT_TRUE(first->parameters()[i].equal(second->parameters()[i]));
    EXPECT_FALSE(first->parameters()[i].equal(other->parameters()[i]));
  }
}

TEST(InitTest, BuildSeededRestoresAfterAnExceptionAndLetsTheNextOneIn) {
  torch::manual_seed(2);
  const at::Tensor next = at::rand({3});
  torch::manual_seed(2);
  EXPECT_THROW((void)build_seeded(1, []() -> int { throw ConfigError("no"); }), ConfigError);
  EXPECT_TRUE(at::rand({3}).equal(next));
  EXPECT_EQ(build_seeded(1, [] { return 4; }), 4);
}

TEST(InitTest, AVectorHasNoFanInAndNoOrthogonalForm) {
  at::Generator generator = make_shard_generator(5, 0);
  EXPECT_THROW(init_orthogonal(at::empty({4}), 1, generator), ConfigError);
  EXPECT_THROW(init_uniform_fan_in(at::empty({4}), {}, generator), ConfigError);
}

}  // namespace
}  // namespace tandem::model
