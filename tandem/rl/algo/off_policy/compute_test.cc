// Updates whose products multiply bfloat16: how far they may be from float64's, by an analysis of rounding errors, and
// what is refused.
#include "tandem/rl/policy/kernels/compute.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/rl/algo/off_policy/kernel_choice.h"
#include "tandem/rl/algo/td3/fused_td3.h"
#include "tandem/rl/policy/kernels/testing/computes_here.h"

namespace tandem::rl {
namespace {

using ::testing::HasSubstr;

// A number rounded to the 8 bits of bfloat16 is off by at most the share 2^-8, so a product of two by at most
// 2 * 2^-8 + 2^-16. Sums are float32, whose errors are within kSums of the sum of sizes.
constexpr double kProduct = 2.0 / 256 + 1.0 / 65536, kSums = 1e-6;

// A matrix and the most that each of its numbers may be off by.
struct Bounded {
  at::Tensor value, most;
};

// Products of a @ b, where both are off and, with `share`, their factors are rounded.
Bounded product(const Bounded& a, const Bounded& b, double share) {
  const at::Tensor a_size = a.value.abs() + a.most, b_size = b.value.abs() + b.most;
  return {at::mm(a.value, b.value),
          at::mm(a.most, b_size) + at::mm(a_size, b.most) + at::mm(a_size, b_size) * (share + kSums)};
}

Bounded exact(const at::Tensor& value) { return {value, at::zeros_like(value)}; }

// A network of ReLU in float64 with the bounds of the rounded one: forward, and backward to its parameters.
struct BoundedNet {
  explicit BoundedNet(const Mlp& mlp) : net(mlp) {}
  // Layers with fewer than 32 inputs or outputs are not rounded.
  static double share_of(const at::Tensor& weight) {
    return weight.size(0) >= 32 && weight.size(1) >= 32 ? kProduct : 0;
  }
  static at::Tensor wide(const at::Tensor& parameter) { return parameter.detach().to(at::kDouble); }

  Bounded forward(Bounded x) {
    for (std::size_t i = 0; i < net.layers().size(); ++i) {
      const at::Tensor weight = wide(net.layers()[i]->weight);
      inputs.push_back(x);
      x = product(x, exact(weight.t()), share_of(weight));
      x.value = x.value + wide(net.layers()[i]->bias);
      arguments.push_back(x);
      if (net.is_activated(i)) x.value = at::relu(x.value);  // which moves nothing apart
    }
    return x;
  }

  // The gradients of weights and biases in turn, from the derivatives with respect to the outputs.
  std::vector<Bounded> backward(Bounded of_output) {
    std::vector<Bounded> all;
    for (std::size_t i = net.layers().size(); i-- > 0;) {
      const at::Tensor weight = wide(net.layers()[i]->weight);
      const Bounded& argument = arguments[i];
      if (net.is_activated(i)) {
        // Where the argument's sign is not sure, the derivative may be passed on or not.
        const at::Tensor size = of_output.value.abs() + of_output.most;
        const at::Tensor is_on = (argument.value > 0).to(at::kDouble);
        of_output.most = at::where(argument.value.abs() <= argument.most, size, of_output.most * is_on);
        of_output.value = of_output.value * is_on;
      }
      const Bounded transposed{of_output.value.t(), of_output.most.t()};
      all.insert(all.begin(), {product(transposed, inputs[i], share_of(weight)),
                               {of_output.value.sum(0), of_output.most.sum(0) + of_output.value.abs().sum(0) * kSums}});
      of_output = product(of_output, exact(weight), share_of(weight));
    }
    return all;
  }

  const Mlp& net;
  std::vector<Bounded> inputs, arguments;
};

// TD3's networks, of which all layers but the heads are rounded, and rows of random numbers. All of them are positive,
// and rewards are beyond all values: so nothing cancels, and the worst that rounding can do is a small share of each
// sum.
struct RoundedTd3 {
  static constexpr std::int64_t kCount = 50;
  static Spec wide_spec() {
    Spec spec;
    spec.id = "Test-v0";
    spec.observation = {{.name = "obs", .type = ElementType::kFloat32, .shape = {33}, .low = {}, .high = {}}};
    spec.action = Box{{-1, -1, -1}, {1, 1, 1}};
    return spec;
  }
  RoundedTd3() : policy(wide_spec(), networks, 2, 0.1, generator), rows(make_transitions(wide_spec(), kCount, 1)) {
    at::manual_seed(3);
    targets.actor = std::make_shared<ObservationNetwork>(wide_spec(), networks, 3, generator);
    targets.critics = std::make_shared<ActionValues>(wide_spec(), networks, 2, generator);
    for (torch::nn::Module* module :
         std::initializer_list<torch::nn::Module*>{&policy, &*targets.actor, &*targets.critics}) {
      const at::NoGradGuard no_grad;
      for (at::Tensor& parameter : module->parameters()) parameter.abs_();
    }
    for (const at::Tensor& parameter : policy.parameters()) parameter.mutable_grad() = at::zeros_like(parameter);
    for (at::Tensor* each : {&rows.observation[0], &rows.next_observation[0], &rows.action}) each->uniform_(0, 1);
    rows.noise[0].normal_();
    rows.reward.uniform_(200, 300);
    rows.discount.fill_(0.99F);
    rows.weight.uniform_(0.2, 1);
  }
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(5);
  NetworkOptions networks{.hidden = {64, 40}};
  Td3Policy policy;
  Td3Targets targets;
  TransitionRows rows;
  Td3Options options;
};

at::Tensor columns_of(const at::Tensor& row) { return row.to(at::kDouble).unsqueeze(1); }

// The most that targets are off by: the least of several numbers is off by no more than the worst of them.
Bounded targets_of(RoundedTd3& it) {
  const at::Tensor next = it.rows.next_observation[0].to(at::kDouble);
  Bounded action = BoundedNet(it.targets.actor->net()).forward(exact(next));
  const double most = it.options.target_noise_clip;
  const at::Tensor noise = (it.rows.noise[0].to(at::kDouble) * it.options.target_noise).clamp(-most, most);
  action.value = (at::tanh(action.value) + noise).clamp(-1, 1);  // neither moves anything apart
  const Bounded pair{at::cat({next, action.value}, 1), at::cat({at::zeros_like(next), action.most}, 1)};
  Bounded least = BoundedNet(*it.targets.critics->networks()[0]).forward(pair);
  const Bounded other = BoundedNet(*it.targets.critics->networks()[1]).forward(pair);
  const at::Tensor discount = columns_of(it.rows.discount);
  return {columns_of(it.rows.reward) + discount * at::minimum(least.value, other.value),
          discount * at::maximum(least.most, other.most)};
}

// Gradients and loss are within what the rounding of factors allows, which is a twentieth of them at most. That they
// differ from float32's at all shows that the option has an effect.
TEST(ComputeTest, AnUpdateIsAsNearAsTheRoundingOfItsFactorsAllows) {
  if (rl::testing::computes_here().empty()) GTEST_SKIP() << "this processor multiplies no bfloat16";
  for (const Compute compute : rl::testing::computes_here()) {
    SCOPED_TRACE(name_of(compute));
    RoundedTd3 it;
    const Bounded target = targets_of(it);
    const at::Tensor pair = at::cat({it.rows.observation[0], it.rows.action}, 1).to(at::kDouble);
    const at::Tensor weight = columns_of(it.rows.weight);
    it.options.compute = compute;
    FusedTd3 rounded(it.policy, it.targets, RoundedTd3::kCount, it.options, InstructionSet::kAvx512);
    const std::vector<std::size_t> both{0, 1};
    OffPolicySums sums;
    const double loss = rounded.critic_loss(it.rows, both, sums, nullptr).loss;
    double wanted = 0, most = 0;
    for (const auto& critic : it.policy.critics().networks()) {
      BoundedNet net(*critic);
      const Bounded value = net.forward(exact(pair));
      const Bounded error{value.value - target.value, value.most + target.most};
      wanted += (weight * error.value.square()).mean().item<double>();
      most += (weight * (2 * error.value.abs() * error.most + error.most.square())).mean().item<double>();
      const std::vector<Bounded> gradients = net.backward({2 * weight * error.value, 2 * weight * error.most});
      std::size_t i = 0;
      for (const at::Tensor& parameter : critic->parameters()) {
        const Bounded& its = gradients[i++];
        const at::Tensor gap = (parameter.grad().to(at::kDouble).reshape_as(its.value) - its.value).abs();
        EXPECT_LE((gap - its.most).max().item<double>(), 0) << "parameter " << i;
        EXPECT_LE(its.most.norm().item<double>(), 0.05 * its.value.norm().item<double>()) << "parameter " << i;
        EXPECT_GT(gap.norm().item<double>(), 2e-6 * its.value.norm().item<double>()) << "parameter " << i;
      }
    }
    EXPECT_NEAR(loss, wanted, most);
    EXPECT_LE(most, 0.05 * wanted);
  }
}

// The critics round where their target needs no network, and the target networks where the critics have the target that
// these give in float64.
TEST(ComputeTest, CriticsRoundAndSoDoTargetNetworks) {
  if (rl::testing::computes_here().empty()) GTEST_SKIP() << "this processor multiplies no bfloat16";
  for (const Compute compute : rl::testing::computes_here()) {
    SCOPED_TRACE(name_of(compute));
    RoundedTd3 it;
    const at::Tensor exact_target = targets_of(it).value.squeeze(1).to(at::kFloat);
    const auto loss_of = [&](Compute with) -> double {
      it.options.compute = with;
      FusedTd3 fused(it.policy, it.targets, RoundedTd3::kCount, it.options, InstructionSet::kAvx512);
      const std::vector<std::size_t> both{0, 1};
      OffPolicySums sums;
      return fused.critic_loss(it.rows, both, sums, nullptr).loss;
    };
    const double rounded = loss_of(compute);
    it.rows.reward.copy_(exact_target);
    it.rows.discount.zero_();
    const double critics = loss_of(compute), neither = loss_of(Compute::kFloat32);
    EXPECT_GT(std::abs(critics - neither), 2e-6 * neither);
    EXPECT_GT(std::abs(rounded - critics), 2e-6 * neither);
  }
}

// Nobody who asks for bfloat16 gets something else.
TEST(ComputeTest, WhatKernelsDoNotComputeIsRefused) {
  RoundedTd3 it;
  it.options.compute = Compute::kBfloat16;
  const auto refusal = [&](std::string why_not) -> std::string {
    try {
      (void)choose_kernels(it.policy, it.options, InstructionSet::kPortable, std::move(why_not));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(""), HasSubstr("it goes with the instruction set avx512"));
  EXPECT_THAT(refusal("the policy has convolutions"), HasSubstr("the policy has convolutions; use float32"));
  it.options.kernel = LossKernel::kOff;
  EXPECT_THAT(refusal(""), HasSubstr("kernel is off; use float32"));
  it.options.compute = Compute::kFloat32;
  EXPECT_EQ(refusal(""), "");
}

// The log of a run names the products, so that a resumed run that has others is told to be another one.
TEST(ComputeTest, TheSentenceOfTheLogNamesTheProducts) {
  RoundedTd3 it;
  for (const Compute compute : rl::testing::computes_here()) {
    it.options.compute = compute;
    EXPECT_THAT(choose_kernels(it.policy, it.options, InstructionSet::kAvx512).sentence,
                HasSubstr(std::string("products of ") + name_of(compute)));
  }
  it.options.compute = Compute::kFloat32;
  EXPECT_THAT(choose_kernels(it.policy, it.options, InstructionSet::kPortable).sentence,
              HasSubstr("by fused kernels (portable)"));
}

}  // namespace
}  // namespace tandem::rl
