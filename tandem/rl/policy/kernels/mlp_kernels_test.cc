#include "tandem/rl/policy/kernels/mlp_kernels.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/model/distribution/categorical.h"

namespace tandem::rl {
namespace {

std::vector<InstructionSet> sets_here() {
  std::vector<InstructionSet> sets;
  for (const auto set : {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set <= detect_instruction_set()) sets.push_back(set);
  }
  return sets;
}

class MlpKernelsTest : public ::testing::TestWithParam<InstructionSet> {
 protected:
  const MlpKernels& kernels() const { return mlp_kernels(GetParam()); }
  // One activation of one number.
  double apply(Activation activation, float x) const {
    std::vector<float> values(kPanel, x);
    kernels().activate(activation, values.data(), values.data(), kPanel);
    const auto first = std::bit_cast<std::uint32_t>(values[0]);
    for (const float value : values) EXPECT_EQ(std::bit_cast<std::uint32_t>(value), first) << "lanes differ";
    return values[0];
  }
};

INSTANTIATE_TEST_SUITE_P(Sets, MlpKernelsTest, ::testing::ValuesIn(sets_here()),
                         [](const auto& chosen) { return std::string(name_of(chosen.param)); });

double exact(Activation activation, double x) {
  switch (activation) {
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kGelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kElu:
      return x > 0 ? x : std::expm1(x);
  }
  return 0;
}

TEST_P(MlpKernelsTest, ActivationsAreWithinTheirErrors) {
  struct Bound {
    Activation activation;
    double absolute, relative;
  };
  for (const Bound& bound :
       {Bound{Activation::kTanh, 0, 3e-7}, Bound{Activation::kRelu, 0, 0}, Bound{Activation::kSilu, 1e-9, 4e-7},
        Bound{Activation::kGelu, 4e-7, 4e-7}, Bound{Activation::kElu, 0, 3e-7}}) {
    double worst = 0;
    for (int i = -60000; i <= 60000; ++i) {
      const auto x = static_cast<float>(i * 3e-4);
      const double expected = exact(bound.activation, static_cast<double>(x)), got = apply(bound.activation, x);
      worst = std::max(worst, std::fabs(got - expected) - bound.absolute - bound.relative * std::fabs(expected));
    }
    EXPECT_LE(worst, 0) << name_of(bound.activation);
  }
}

TEST_P(MlpKernelsTest, TanhIsWithinTwoTenMillionthsEverywhere) {
  double worst = 0;
  // All exponents, from denormal numbers to the largest.
  for (std::uint32_t bits = 0; bits < 0x7f800000U; bits += 40009) {
    float x = 0;
    std::memcpy(&x, &bits, sizeof x);
    worst = std::max(worst, std::fabs(apply(Activation::kTanh, x) - std::tanh(static_cast<double>(x))));
    EXPECT_EQ(apply(Activation::kTanh, -x), -apply(Activation::kTanh, x));
  }
  EXPECT_LE(worst, 2e-7);
  EXPECT_EQ(apply(Activation::kTanh, 50.0F), 1.0);
  EXPECT_NEAR(apply(Activation::kTanh, 1e-20F), 1e-20, 1e-26);
}

TEST_P(MlpKernelsTest, NanIsNotHidden) {
  for (const auto activation :
       {Activation::kTanh, Activation::kRelu, Activation::kSilu, Activation::kGelu, Activation::kElu}) {
    std::vector<float> values(kPanel, 0.5F);
    values[3] = std::numeric_limits<float>::quiet_NaN();
    kernels().activate(activation, values.data(), values.data(), kPanel);
    EXPECT_TRUE(std::isnan(values[3])) << name_of(activation);
    EXPECT_FALSE(std::isnan(values[4])) << name_of(activation);
  }
}

TEST_P(MlpKernelsTest, LargeNumbersSaturateInsteadOfOverflowing) {
  for (const float x : {100.0F, 1e30F}) {
    EXPECT_EQ(apply(Activation::kTanh, -x), -1.0);
    EXPECT_EQ(apply(Activation::kSilu, x), static_cast<double>(x));
    EXPECT_NEAR(apply(Activation::kSilu, -x), 0, 1e-7);
    EXPECT_EQ(apply(Activation::kGelu, x), static_cast<double>(x));
    EXPECT_EQ(apply(Activation::kElu, -x), -1.0);
    EXPECT_EQ(apply(Activation::kElu, x), static_cast<double>(x));
  }
}

// Odd samples exclude option 1 by a logit of -inf; of three options the mask, where there is one, excludes the last.
TEST_P(MlpKernelsTest, ALogitOfMinusInfinityIsAnExcludedChoice) {
  constexpr std::int64_t kOptions = 3, kSamples = 2 * kPanel;
  for (const bool has_mask : {false, true}) {
    AlignedFloats logits(kOptions * kBlock), allowed(kOptions * kBlock), taken(kBlock), log_prob(kBlock),
        entropy(kBlock), by_log_prob(kBlock), by_entropy(kBlock);
    at::Tensor given = at::randn({kSamples, kOptions}, at::kDouble);
    const at::Tensor mask = at::ones({kSamples, kOptions}, at::kByte);
    if (has_mask) mask.select(1, 2).zero_();
    for (std::int64_t s = 0; s < kSamples; ++s) {
      if (s % 2 == 1) given[s][1] = -INFINITY;
      for (std::int64_t i = 0; i < kOptions; ++i) {
        logits.data()[i * kBlock + s] = given[s][i].item<float>();
        allowed.data()[i * kBlock + s] = mask[s][i].item<float>();
      }
      by_log_prob.data()[s] = 0.5F;
      by_entropy.data()[s] = 3.0F;
    }
    const BlockKernels<float>& block = block_kernels<float>(GetParam());
    const ChoiceBlock<float> choice{.options = kOptions,
                                    .samples = kSamples,
                                    .logits = logits.data(),
                                    .allowed = has_mask ? allowed.data() : nullptr,
                                    .taken = taken.data(),
                                    .log_prob = log_prob.data(),
                                    .entropy = entropy.data()};
    block.choose(choice);
    block.choose_back(choice, by_log_prob.data(), by_entropy.data());

    given.requires_grad_();
    const model::Categorical definition(given, has_mask ? mask : at::Tensor());
    const at::Tensor log_probs = definition.log_prob(at::zeros({kSamples}, at::kLong)),
                     entropies = definition.entropy();
    (0.5 * log_probs + 3 * entropies).sum().backward();
    for (std::int64_t s = 0; s < kSamples; ++s) {
      EXPECT_NEAR(log_prob.data()[s], log_probs[s].item<double>(), 1e-5);
      EXPECT_NEAR(entropy.data()[s], entropies[s].item<double>(), 1e-5);
      for (std::int64_t i = 0; i < kOptions; ++i)
        EXPECT_NEAR(logits.data()[i * kBlock + s], given.grad()[s][i].item<double>(), 1e-4) << s << ' ' << i;
    }
  }
}

struct Shape {
  std::int64_t inputs, outputs;
};

TEST_P(MlpKernelsTest, DenseEqualsTorchAndPadsWithZeros) {
  for (const Shape shape : {Shape{4, 64}, Shape{64, 2}, Shape{1, 1}, Shape{17, 33}, Shape{128, 80}, Shape{3, 16}}) {
    const at::Tensor w = at::randn({shape.outputs, shape.inputs}), b = at::randn({shape.outputs});
    PackedLayer layer(shape.inputs, shape.outputs);
    layer.pack(w.const_data_ptr<float>(), b.const_data_ptr<float>());
    const std::int64_t stride = shape.inputs + 3;
    const at::Tensor x = at::randn({19, stride}), y = at::full({19, padded(shape.outputs)}, NAN);
    for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 7, 12, 19}) {
      kernels().dense(x.const_data_ptr<float>(), stride, rows, layer, y.data_ptr<float>());
      const at::Tensor expected = at::linear(x.slice(0, 0, rows).slice(1, 0, shape.inputs), w, b);
      EXPECT_TRUE(at::allclose(y.slice(0, 0, rows).slice(1, 0, shape.outputs), expected, 1e-5, 1e-5)) << rows;
      EXPECT_EQ(y.slice(0, 0, rows).slice(1, shape.outputs).count_nonzero().item<std::int64_t>(), 0);
    }
  }
}

TEST_P(MlpKernelsTest, ARowHasTheSameBitsInEveryBatch) {
  const at::Tensor w = at::randn({70, 50}), b = at::randn({70}), x = at::randn({23, 50});
  PackedLayer layer(50, 70);
  layer.pack(w.const_data_ptr<float>(), b.const_data_ptr<float>());
  const at::Tensor all = at::empty({23, 80}), part = at::empty({23, 80});
  kernels().dense(x.const_data_ptr<float>(), 50, 23, layer, all.data_ptr<float>());
  for (std::int64_t begin = 0; begin < 23; ++begin) {
    for (const std::int64_t rows : {1, 2, 3, 5, 6, 9}) {
      const std::int64_t count = std::min<std::int64_t>(rows, 23 - begin);
      kernels().dense(x[begin].const_data_ptr<float>(), 50, count, layer, part.data_ptr<float>());
      EXPECT_TRUE(part.slice(0, 0, count).equal(all.slice(0, begin, begin + count))) << begin << " " << rows;
    }
  }
}

TEST(MlpKernelsChoiceTest, ASetThatTheProcessorLacksIsRefused) {
  EXPECT_THROW((void)mlp_kernels(static_cast<InstructionSet>(static_cast<int>(detect_instruction_set()) + 1)),
               ConfigError);
}

}  // namespace
}  // namespace tandem::rl
