#include "tandem/rl/policy/kernels/squashed_normal_gradient.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/base/text.h"
#include "tandem/model/distribution/normal.h"

namespace tandem::rl {
namespace {

using Kind = LogStdRange::Kind;

// The formulas of appendix C of Haarnoja et al. 2018 in tensors; a test below holds them to model::SquashedNormal.
struct SquashDefinition {
  SquashDefinition(const at::Tensor& head, const at::Tensor& noise, const LogStdRange& range) {
    const std::vector<at::Tensor> halves = head.chunk(2, 1);
    log_std = range.kind == Kind::kClamped ? halves[1].clamp(range.low, range.high)
                                           : (halves[1].tanh() + 1) * ((range.high - range.low) / 2) + range.low;
    const at::Tensor u = halves[0] + log_std.exp() * noise;
    action = u.tanh();
    const at::Tensor log_slope = (std::log(2.0) - u - at::softplus(u * -2, 1, 100)) * 2;  // the default is cut at 20
    log_prob = (noise.square() * -0.5 - log_std - 0.91893853320467274 - log_slope).sum(1);
  }
  at::Tensor log_std, action, log_prob;
};

template <typename Real>
at::Tensor copy_of_rows(const Real* numbers, at::IntArrayRef shape) {
  at::Tensor copy = at::empty(shape, at::TensorOptions().dtype(c10::CppTypeToScalarType<Real>::value));
  std::copy_n(numbers, copy.numel(), copy.template mutable_data_ptr<Real>());
  return copy;
}

double largest_gap(const at::Tensor& got, const at::Tensor& expected) {
  const at::Tensor size = expected.abs().clamp_min(1);
  return ((got.to(at::kDouble) - expected) / size).abs().max().item<double>();
}

// Heads reach beyond the range of log_std and far into the saturation of tanh.
template <typename Real>
void expect_definition(std::int64_t rows, std::int64_t size, const LogStdRange& range, InstructionSet set,
                       double within) {
  SCOPED_TRACE(concat(rows, " rows of ", size, ", ", name_of(set)));
  at::manual_seed(static_cast<std::uint64_t>(rows * 31 + size));
  const auto dtype = at::TensorOptions().dtype(c10::CppTypeToScalarType<Real>::value);
  const at::Tensor head = at::randn({rows, 2 * size}, dtype) * 3, noise = at::randn({rows, size}, dtype);
  const at::Tensor of_action = at::randn({rows, size}, dtype), of_log_prob = at::randn({rows}, dtype);
  const at::Tensor x = head.to(at::kDouble).requires_grad_();
  const SquashDefinition expected(x, noise.to(at::kDouble), range);
  const at::Tensor loss = (expected.action * of_action).sum() + (expected.log_prob * of_log_prob).sum();
  const at::Tensor of_head = torch::autograd::grad({loss}, {x})[0];

  SquashedNormalGradient<Real> kernel(size, rows + 3, range, set);
  kernel.forward(head.const_data_ptr<Real>(), noise.const_data_ptr<Real>(), rows);
  EXPECT_LE(largest_gap(copy_of_rows(kernel.action(), {rows, size}), expected.action.detach()), within);
  EXPECT_LE(largest_gap(copy_of_rows(kernel.log_prob(), {rows}), expected.log_prob.detach()), within);
  const Real* got = kernel.backward(of_action.const_data_ptr<Real>(), of_log_prob.const_data_ptr<Real>());
  EXPECT_LE(largest_gap(copy_of_rows(got, {rows, 2 * size}), of_head), within);
}

template <typename Real>
void expect_all(InstructionSet set, double within) {
  for (const LogStdRange& range : {LogStdRange{}, LogStdRange{.kind = Kind::kClamped, .low = -2, .high = 1},
                                   LogStdRange{.kind = Kind::kSquashed, .low = -5, .high = 2}}) {
    for (const std::int64_t rows : {1, 3, 17, 64, 130}) {
      for (const std::int64_t size : {1, 2, 6}) expect_definition<Real>(rows, size, range, set, within);
    }
  }
}

TEST(SquashedNormalGradientTest, AgreesWithAutogradInFloat64) { expect_all<double>(InstructionSet::kPortable, 1e-10); }

// In float32 1 - a^2 loses digits where tanh saturates, in autograd as here.
TEST(SquashedNormalGradientTest, AgreesWithAutogradInFloat32ForEverySet) {
  for (const auto set : {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set <= detect_instruction_set()) expect_all<float>(set, 3e-5);
  }
}

TEST(SquashedNormalGradientTest, TheDefinitionIsThatOfTheDistribution) {
  const at::Tensor head = at::randn({40, 6}, at::kDouble), noise = at::randn({40, 3}, at::kDouble);
  const SquashDefinition here(head, noise, {});
  const model::SquashedNormal distribution(head.narrow(1, 0, 3), head.narrow(1, 3, 3).clamp(-20, 2));
  EXPECT_LE(largest_gap(distribution.log_prob(here.action), here.log_prob), 1e-7);  // it inverts tanh
}

TEST(SquashedNormalGradientTest, BackwardFollowsAForward) {
  SquashedNormalGradient<float> kernel(2, 4, {}, InstructionSet::kPortable);
  const std::vector<float> numbers(16, 0.5F);
  EXPECT_THROW(kernel.backward(numbers.data(), numbers.data()), InvariantError);
  EXPECT_THROW(kernel.forward(numbers.data(), numbers.data(), 5), InvariantError);
  kernel.forward(numbers.data(), numbers.data(), 4);
  kernel.backward(numbers.data(), numbers.data());
  EXPECT_THROW(kernel.backward(numbers.data(), numbers.data()), InvariantError);
}

}  // namespace
}  // namespace tandem::rl
