// Where a BlockNet leaves its gradients, none of which changes their bits.
#include "tandem/rl/policy/kernels/block_net.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "tandem/base/error.h"
#include "tandem/model/testing/seeded.h"

namespace tandem::rl {
namespace {

using FloatNet = BlockNet<float>;
constexpr std::int64_t kNetFeatures = 32, kNetOutputs = 48, kNetRows = kBlock + 21;

// One layer, whose weights need no padding, and two blocks of rows, the second a short one.
struct BlockNetCase {
  BlockNetCase() : mlp({.sizes = {kNetFeatures, kNetOutputs}}, model::seeded(5)), scratch(kNetOutputs) {
    for (at::Tensor& parameter : mlp.parameters()) parameter.mutable_grad() = at::full_like(parameter, NAN);
    at::Generator random = model::seeded(6);
    features = at::randn({kNetRows, kNetFeatures}, random);
    of_outputs = at::randn({kNetRows, kNetOutputs}, random);
  }

  // A pass over all rows. Returns the derivatives with respect to the inputs, [kNetRows, kNetFeatures].
  at::Tensor run(FloatNet& net, FloatNet::OfInput::Layout layout) {
    const at::Tensor of_inputs = at::empty({kNetRows, kNetFeatures});
    net.begin();
    for (std::int64_t first = 0; first < kNetRows; first += kBlock) {
      const std::int64_t samples = std::min(kBlock, kNetRows - first);
      AlignedFloats columns(kNetFeatures * kBlock), gradient(kNetOutputs * kBlock),
          to(kBlock * row_stride(kNetFeatures));
      for (std::int64_t i = 0; i < samples; ++i) {
        for (std::int64_t f = 0; f < kNetFeatures; ++f)
          columns.data()[f * kBlock + i] = features[first + i][f].item<float>();
        for (std::int64_t o = 0; o < kNetOutputs; ++o)
          gradient.data()[o * kBlock + i] = of_outputs[first + i][o].item<float>();
      }
      const BlockInput<float> input{.columns = columns.data()};
      net.forward(input, 0, samples);
      net.backward(input, 0, samples, gradient.data(), ParameterGradients::kOverwrite,
                   {.numbers = to.data(), .begin = 0, .count = kNetFeatures, .layout = layout}, scratch);
      const bool in_rows = layout == FloatNet::OfInput::Layout::kRows;
      for (std::int64_t i = 0; i < samples; ++i) {
        for (std::int64_t f = 0; f < kNetFeatures; ++f)
          of_inputs[first + i][f] = to.data()[in_rows ? i * row_stride(kNetFeatures) + f : f * kBlock + i];
      }
    }
    net.finish(ParameterGradients::kOverwrite);
    return of_inputs;
  }

  FloatNet make(InstructionSet set, FloatNet::SumsOfWeights sums) const {
    return {mlp, block_kernels<float>(set), {.rows = FloatNet::InputRows::kMissing, .sums = sums}};
  }
  [[nodiscard]] at::Tensor weight_gradient() const { return mlp.layers()[0]->weight.grad(); }

  Mlp mlp;
  BackwardScratch<float> scratch;
  at::Tensor features, of_outputs;
};

constexpr auto kApart = FloatNet::SumsOfWeights::kApart, kInGradient = FloatNet::SumsOfWeights::kInGradient;
constexpr auto kColumns = FloatNet::OfInput::Layout::kColumns, kInRows = FloatNet::OfInput::Layout::kRows;

TEST(BlockNetTest, GradientsHaveTheSameBitsWhereverTheyAreSummed) {
  for (const auto set : {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set > detect_instruction_set()) continue;
    BlockNetCase it;
    FloatNet apart = it.make(set, kApart), in_gradient = it.make(set, kInGradient);
    (void)it.run(apart, kColumns);
    const at::Tensor expected = it.weight_gradient().clone();
    const at::Tensor exact = it.of_outputs.t().matmul(it.features);
    EXPECT_LT((expected - exact).abs().max().item<double>(), 1e-4);
    for (int time = 0; time < 2; ++time) {  // what the first pass left does not count
      (void)it.run(in_gradient, kColumns);
      EXPECT_TRUE(it.weight_gradient().equal(expected)) << name_of(set);
    }
  }
}

TEST(BlockNetTest, DerivativesOfInputsHaveTheSameBitsAsRowsAndAsColumns) {
  for (const auto set : {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set > detect_instruction_set()) continue;
    BlockNetCase it;
    FloatNet net = it.make(set, kApart);
    ASSERT_TRUE(net.makes_rows(kNetFeatures));
    EXPECT_FALSE(net.makes_rows(kNetFeatures - 1)) << "which is no whole number of panels";
    EXPECT_TRUE(it.run(net, kInRows).equal(it.run(net, kColumns))) << name_of(set);
  }
}

TEST(BlockNetTest, APassWithoutABlockHasGradientsOfZero) {
  for (const auto sums : {kApart, kInGradient}) {
    BlockNetCase it;
    FloatNet net = it.make(InstructionSet::kPortable, sums);
    net.begin();
    net.finish(ParameterGradients::kOverwrite);
    EXPECT_EQ(it.weight_gradient().count_nonzero().item<std::int64_t>(), 0);
  }
}

TEST(BlockNetTest, SumsInTheGradientCannotBeAddedToIt) {
  BlockNetCase it;
  FloatNet net = it.make(InstructionSet::kPortable, kInGradient);
  net.begin();
  EXPECT_THROW(net.finish(ParameterGradients::kAdd), InvariantError);
}

}  // namespace
}  // namespace tandem::rl
