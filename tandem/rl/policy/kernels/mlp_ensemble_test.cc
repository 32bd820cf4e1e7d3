#include "tandem/rl/policy/kernels/mlp_ensemble.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {
namespace {

struct EnsembleCase {
  std::int64_t rows, features, second, outputs;
  std::vector<std::int64_t> hidden;
  int nets;
  Activation activation = Activation::kRelu;
  Mlp::Norm norm = Mlp::Norm::kNone;
  Mlp::LastLayer last = Mlp::LastLayer::kLinear;

  [[nodiscard]] std::string text() const {
    return concat(nets, " nets of ", features, " to ", outputs, ", ", name_of(activation), ", ", rows, " rows, ",
                  norm == Mlp::Norm::kLayer ? "norms" : "no norms");
  }
};

// Nets with random parameters, their input, and the derivatives of a loss with respect to their outputs.
struct EnsembleTrial {
  EnsembleTrial(const EnsembleCase& with, at::ScalarType dtype) : of(with) {
    at::manual_seed(static_cast<std::uint64_t>(with.rows * 100 + with.features));
    const at::TensorOptions real = at::TensorOptions().dtype(dtype);
    for (int i = 0; i < with.nets; ++i) {
      nets.push_back(std::make_shared<Mlp>(Mlp::Options{.sizes = layer_sizes(with.features, with.hidden, with.outputs),
                                                        .activation = with.activation,
                                                        .last = with.last,
                                                        .norm = with.norm},
                                           at::detail::createCPUGenerator(static_cast<std::uint64_t>(i))));
      nets.back()->to(dtype);
      for (const at::Tensor& parameter : nets.back()->parameters()) {
        const at::NoGradGuard off;
        at::Tensor held = parameter;
        held.add_(at::randn(held.sizes(), real), 0.1);  // biases and shifts start at zero, scales at one
        held.mutable_grad() = at::full_like(held, 7.0);
      }
    }
    input = at::randn({with.rows, with.features}, real);
    first = input.narrow(1, 0, with.features - with.second).contiguous();
    second = input.narrow(1, with.features - with.second, with.second).contiguous();
    of_output = at::randn({with.nets, with.rows, with.outputs}, real);
  }

  template <typename Real>
  [[nodiscard]] MlpEnsemble<Real> ensemble(InstructionSet set, Passes passes = Passes::kForwardAndBackward) const {
    std::vector<const Mlp*> all;
    for (const auto& net : nets) all.push_back(net.get());
    return MlpEnsemble<Real>(all,
                             {.max_rows = of.rows + 5, .second_features = of.second, .passes = passes, .set = set});
  }
  template <typename Real>
  [[nodiscard]] typename MlpEnsemble<Real>::Rows rows() const {
    return {.first = first.const_data_ptr<Real>(), .second = of.second > 0 ? second.const_data_ptr<Real>() : nullptr};
  }
  [[nodiscard]] std::vector<at::Tensor> parameters() const {
    std::vector<at::Tensor> all;
    for (const auto& net : nets) {
      for (const at::Tensor& parameter : net->parameters()) all.push_back(parameter);
    }
    return all;
  }
  // The gradients as they are now, after one another.
  [[nodiscard]] std::vector<at::Tensor> gradients() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& parameter : parameters()) all.push_back(parameter.grad().clone());
    return all;
  }

  EnsembleCase of;
  std::vector<std::shared_ptr<Mlp>> nets;
  at::Tensor input, first, second, of_output;
};

// What autograd makes of it.
struct EnsembleDefinition {
  explicit EnsembleDefinition(const EnsembleTrial& setup) {
    const at::Tensor x = setup.input.clone().requires_grad_();
    std::vector<at::Tensor> outputs, wanted = setup.parameters();
    for (const auto& net : setup.nets) outputs.push_back(net->forward(x));
    output = at::stack(outputs);
    wanted.push_back(x);
    of_parameters = torch::autograd::grad({(output * setup.of_output).sum()}, wanted);
    of_input = of_parameters.back();
    of_parameters.pop_back();
    output = output.detach();
  }
  at::Tensor output, of_input;
  std::vector<at::Tensor> of_parameters;
};

// The largest relative_difference, in units of the largest number.
double relative_difference(const at::Tensor& got, const at::Tensor& expected) {
  const double size = std::max(1.0, expected.abs().max().item<double>());
  return (got.to(at::kDouble) - expected.to(at::kDouble)).abs().max().item<double>() / size;
}

template <typename Real>
at::Tensor copy_of(const Real* numbers, at::IntArrayRef shape) {
  at::Tensor copy = at::empty(shape, at::TensorOptions().dtype(c10::CppTypeToScalarType<Real>::value));
  std::copy_n(numbers, copy.numel(), copy.template mutable_data_ptr<Real>());
  return copy;
}

template <typename Real>
void expect_as_autograd(const EnsembleCase& with, InstructionSet set, double within) {
  SCOPED_TRACE(concat(with.text(), ", ", name_of(set)));
  const EnsembleTrial setup(with, c10::CppTypeToScalarType<Real>::value);
  const EnsembleDefinition expected(setup);
  MlpEnsemble<Real> ensemble = setup.ensemble<Real>(set);
  const at::Tensor output =
      copy_of(ensemble.forward(setup.rows<Real>(), with.rows), {with.nets, with.rows, with.outputs});
  EXPECT_LE(relative_difference(output, expected.output), within);
  const Real* of_output = setup.of_output.const_data_ptr<Real>();
  const std::vector<at::Tensor> before = setup.gradients();
  if (with.second > 0) {
    const Real* part = ensemble.backward(of_output, ParameterGradients::kLeave, InputGradient::kSecond);
    EXPECT_LE(relative_difference(copy_of(part, {with.rows, with.second}),
                                  expected.of_input.narrow(1, with.features - with.second, with.second)),
              within);
  }
  const std::vector<at::Tensor> left = setup.gradients();
  for (std::size_t i = 0; i < left.size(); ++i) EXPECT_TRUE(left[i].equal(before[i])) << "written without being asked";
  const Real* whole = ensemble.backward(of_output, ParameterGradients::kOverwrite, InputGradient::kWhole);
  EXPECT_LE(relative_difference(copy_of(whole, {with.rows, with.features}), expected.of_input), within);
  const std::vector<at::Tensor> got = setup.gradients();
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_LE(relative_difference(got[i], expected.of_parameters[i]), within) << "parameter " << i;
  EXPECT_EQ(ensemble.backward(of_output, ParameterGradients::kAdd, InputGradient::kNone), nullptr);
  const std::vector<at::Tensor> twice = setup.gradients();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(twice[i].equal(got[i] * 2)) << "parameter " << i;
}

std::vector<EnsembleCase> ensemble_cases() {
  using enum Activation;
  constexpr auto kLayer = Mlp::Norm::kLayer;
  std::vector<EnsembleCase> all{
      {256, 23, 6, 1, {64, 48}, 2},
      {17, 3, 1, 1, {20}, 2, kTanh},
      {1, 1, 0, 1, {1}, 1, kSilu},
      {3, 5, 5, 4, {33, 7}, 10, kGelu},
      {65, 17, 16, 12, {}, 2, kElu},
      {130, 40, 3, 51, {32, 100, 16}, 1},
      {64, 4, 1, 2, {64, 64}, 2},
      {63, 9, 0, 18, {24}, 3, kTanh, Mlp::Norm::kNone, Mlp::LastLayer::kActivated},
      {256, 23, 6, 1, {64, 48}, 2, kRelu, kLayer},
      {17, 3, 1, 1, {20, 17}, 10, kTanh, kLayer},
      {3, 6, 2, 3, {33}, 2, kSilu, kLayer},
      {1, 2, 1, 1, {5, 4}, 1, kElu, kLayer},
      {70, 6, 2, 19, {40}, 2, kGelu, kLayer, Mlp::LastLayer::kActivated},
  };
  return all;
}

std::vector<InstructionSet> sets_of_this_processor() {
  std::vector<InstructionSet> sets;
  for (const auto set : {InstructionSet::kPortable, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set <= detect_instruction_set()) sets.push_back(set);
  }
  return sets;
}

// The tensors are small: LibTorch's threads would wait for each other longer than they compute.
class MlpEnsembleTest : public ::testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
  void TearDown() override { at::set_num_threads(before_); }

 private:
  const int before_ = at::get_num_threads();
};

TEST_F(MlpEnsembleTest, AgreesWithAutogradInFloat64) {
  for (const EnsembleCase& each : ensemble_cases()) expect_as_autograd<double>(each, InstructionSet::kPortable, 1e-10);
}

TEST_F(MlpEnsembleTest, AgreesWithAutogradInFloat32ForEverySet) {
  for (const InstructionSet set : sets_of_this_processor()) {
    for (const EnsembleCase& each : ensemble_cases()) expect_as_autograd<float>(each, set, 2e-5);
  }
}

// A net's numbers are those that it has alone, and forward passes that keep nothing give them, too.
TEST_F(MlpEnsembleTest, ANetsBitsDoNotDependOnTheOthers) {
  const EnsembleCase with{.rows = 130, .features = 11, .second = 3, .outputs = 1, .hidden = {32, 32}, .nets = 3};
  const EnsembleTrial setup(with, at::kFloat);
  const InstructionSet set = detect_instruction_set();
  MlpEnsemble<float> all = setup.ensemble<float>(set), kept = setup.ensemble<float>(set, Passes::kForward);
  const at::Tensor together = copy_of(all.forward(setup.rows<float>(), 130), {3, 130});
  EXPECT_TRUE(copy_of(kept.forward(setup.rows<float>(), 130), {3, 130}).equal(together));
  const std::vector<std::size_t> chosen{2, 0};
  EXPECT_TRUE(
      copy_of(kept.forward(setup.rows<float>(), 130, chosen), {2, 130}).equal(at::stack({together[2], together[0]})));
  all.backward(setup.of_output.const_data_ptr<float>(), ParameterGradients::kOverwrite, InputGradient::kNone);
  const std::vector<at::Tensor> gradients = setup.gradients();
  for (std::size_t i = 0; i < 3; ++i) {
    MlpEnsemble<float> one({setup.nets[i].get()}, {.max_rows = 130, .second_features = 3, .set = set});
    EXPECT_TRUE(copy_of(one.forward(setup.rows<float>(), 130), {130}).equal(together[static_cast<std::int64_t>(i)]));
    one.backward(setup.of_output[static_cast<std::int64_t>(i)].const_data_ptr<float>(), ParameterGradients::kOverwrite,
                 InputGradient::kNone);
  }
  const std::vector<at::Tensor> alone = setup.gradients();
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(alone[i].equal(gradients[i])) << "parameter " << i;
}

// What larger batches left in the memory beyond the rows has no part in a smaller one.
TEST_F(MlpEnsembleTest, EarlierBatchesLeaveNoTrace) {
  const EnsembleCase with{.rows = 33,
                          .features = 7,
                          .second = 2,
                          .outputs = 3,
                          .hidden = {40, 24},
                          .nets = 2,
                          .activation = Activation::kSilu,
                          .norm = Mlp::Norm::kLayer};
  const EnsembleTrial setup(with, at::kFloat);
  EnsembleCase larger = with;
  larger.rows = 200;
  const EnsembleTrial other(larger, at::kFloat);
  const InstructionSet set = detect_instruction_set();
  const auto run = [&](MlpEnsemble<float>& ensemble) {
    ensemble.forward(setup.rows<float>(), 33);
    const float* of_input = ensemble.backward(setup.of_output.const_data_ptr<float>(), ParameterGradients::kOverwrite,
                                              InputGradient::kWhole);
    std::vector<at::Tensor> results = setup.gradients();
    results.push_back(copy_of(of_input, {33, 7}));
    return results;
  };
  MlpEnsemble<float> fresh = setup.ensemble<float>(set);
  MlpEnsemble<float> used({setup.nets[0].get(), setup.nets[1].get()},
                          {.max_rows = 200, .second_features = 2, .set = set});
  used.forward(other.rows<float>(), 200);
  used.backward(other.of_output.const_data_ptr<float>(), ParameterGradients::kOverwrite, InputGradient::kWhole);
  const std::vector<at::Tensor> expected = run(fresh), got = run(used);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(expected[i])) << i;
}

TEST_F(MlpEnsembleTest, WhatCannotBeIsADefectOfTheCaller) {
  const EnsembleCase with{.rows = 8, .features = 4, .second = 1, .outputs = 1, .hidden = {8}, .nets = 2};
  const EnsembleTrial setup(with, at::kFloat);
  MlpEnsemble<float> ensemble = setup.ensemble<float>(InstructionSet::kPortable);
  const float* of_output = setup.of_output.const_data_ptr<float>();
  EXPECT_THROW(ensemble.backward(of_output, ParameterGradients::kLeave, InputGradient::kWhole), InvariantError);
  EXPECT_THROW(ensemble.forward(setup.rows<float>(), 14), InvariantError);  // room for 13
  MlpEnsemble<float> forward_only = setup.ensemble<float>(InstructionSet::kPortable, Passes::kForward);
  forward_only.forward(setup.rows<float>(), 8);
  EXPECT_THROW(forward_only.backward(of_output, ParameterGradients::kLeave, InputGradient::kWhole), InvariantError);
  const std::vector<std::size_t> second{1}, third{2};
  ensemble.forward(setup.rows<float>(), 8);
  ensemble.forward(setup.rows<float>(), 8, second);
  EXPECT_THROW(ensemble.backward(of_output, ParameterGradients::kLeave, InputGradient::kWhole), InvariantError);
  EXPECT_THROW(ensemble.forward(setup.rows<float>(), 8, third), InvariantError);
  const Mlp wider({.sizes = {4, 9, 1}}, at::detail::createCPUGenerator(1));
  EXPECT_THROW(MlpEnsemble<float>({setup.nets[0].get(), &wider}, {.max_rows = 8}), InvariantError);
}

}  // namespace
}  // namespace tandem::rl
