// Noisy layers against the formula of their paper, in float64.
#include "tandem/rl/algo/dqn/noisy_layers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tandem::rl {
namespace {

struct NoisyCase {
  NoisyCase() {
    const at::NoGradGuard no_grad;
    at::manual_seed(8);
    for (at::Tensor& parameter : deviations->parameters()) parameter.uniform_(0.1, 0.6);
  }
  std::shared_ptr<Mlp> net = std::make_shared<Mlp>(Mlp::Options{.sizes = {3, 5, 2}, .activation = Activation::kRelu},
                                                   at::make_generator<at::CPUGeneratorImpl>(1));
  std::shared_ptr<Mlp> deviations = make_deviations(*net, 0.5);
};

TEST(NoisyLayersTest, WeightsAreMeansAndDeviationsTimesTheFactorsOfTheirSides) {
  NoisyCase it;
  it.net->to(at::kDouble);
  it.deviations->to(at::kDouble);
  Philox random(3);
  const NetNoise noise = draw_noise(*it.net, random);
  const at::Tensor x = at::randn({6, 3}, at::kDouble);
  const at::Tensor got = forward_noisy(*it.net, *it.deviations, noise, x);
  for (std::int64_t row = 0; row < 6; ++row) {
    std::vector<double> from(x[row].const_data_ptr<double>(), x[row].const_data_ptr<double>() + 3);
    for (std::size_t layer = 0; layer < 2; ++layer) {
      const auto &mean = it.net->layers()[layer], &deviation = it.deviations->layers()[layer];
      std::vector<double> to;
      for (std::int64_t o = 0; o < mean->weight.size(0); ++o) {
        const double output = noise[layer].outputs[static_cast<std::size_t>(o)];
        double sum = mean->bias[o].item<double>() + deviation->bias[o].item<double>() * output;
        for (std::int64_t i = 0; i < mean->weight.size(1); ++i) {
          const double input = noise[layer].inputs[static_cast<std::size_t>(i)];
          sum += (mean->weight[o][i].item<double>() + deviation->weight[o][i].item<double>() * output * input) *
                 from[static_cast<std::size_t>(i)];
        }
        to.push_back(layer == 0 ? std::max(sum, 0.0) : sum);
      }
      from = to;
    }
    for (std::int64_t o = 0; o < 2; ++o)
      EXPECT_NEAR(got[row][o].item<double>(), from[static_cast<std::size_t>(o)], 1e-10);
  }
}

// The factors are sign(e) sqrt(|e|) of normal numbers of the stream, inputs before outputs, layer by layer.
TEST(NoisyLayersTest, FactorsAreRootsOfNormalNumbersOfTheStream) {
  const NoisyCase it;
  Philox random(5), again(5);
  const NetNoise noise = draw_noise(*it.net, random);
  const auto expect_next = [&](const std::vector<float>& factors, std::size_t count) {
    ASSERT_EQ(factors.size(), count);
    for (const float factor : factors) {
      const double e = again.normal();
      EXPECT_EQ(factor, static_cast<float>(e < 0 ? -std::sqrt(-e) : std::sqrt(e)));
    }
  };
  expect_next(noise.at(0).inputs, 3);
  expect_next(noise.at(0).outputs, 5);
  expect_next(noise.at(1).inputs, 5);
  expect_next(noise.at(1).outputs, 2);
}

TEST(NoisyLayersTest, DeviationsBeginWithTheirShareOfTheRootOfTheInputs) {
  const NoisyCase it;
  const std::shared_ptr<Mlp> first = make_deviations(*it.net, 0.5);
  EXPECT_TRUE(first->layers()[0]->weight.allclose(at::full({5, 3}, 0.5 / std::sqrt(3))));
  EXPECT_TRUE(first->layers()[1]->bias.allclose(at::full({2}, 0.5 / std::sqrt(5))));
}

}  // namespace
}  // namespace tandem::rl
