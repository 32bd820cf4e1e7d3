#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/model/testing/seeded.h"
#include "tandem/rl/policy/actor/actor.h"
#include "tandem/rl/policy/actor/actors.h"
#include "tandem/rl/policy/encoder.h"
#include "tandem/rl/policy/mlp_policy.h"
#include "tandem/rl/policy/policy_export.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::rl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Leaf image_leaf(std::int64_t channels, std::int64_t height, std::int64_t width) {
  return {.name = "image", .type = ElementType::kUInt8, .shape = {channels, height, width}};
}
Spec image_spec(std::int64_t channels, std::int64_t height, std::int64_t width) {
  return {.id = "Pixels-v0", .observation = {image_leaf(channels, height, width)}, .action = Discrete{3}};
}
// An image between two other leaves.
Spec mixed_image_spec() {
  Spec spec = image_spec(2, 9, 12);
  spec.observation.insert(spec.observation.begin(), {.name = "speed", .shape = {3}});
  spec.observation.push_back({.name = "card", .type = ElementType::kInt64, .low = {0}, .high = {3}});
  return spec;
}
Observation random_rows(const Spec& spec, std::int64_t rows, std::uint64_t seed) {
  at::Generator random = model::seeded(seed);
  Observation observation;
  for (const Leaf& leaf : spec.observation) {
    std::vector<std::int64_t> shape{rows};
    shape.insert(shape.end(), leaf.shape.begin(), leaf.shape.end());
    observation.push_back(leaf.type == ElementType::kFloat32 ? at::randn(shape, random)
                          : leaf.type == ElementType::kUInt8 ? at::randint(0, 256, shape, random, at::kByte)
                                                             : at::randint(0, 4, shape, random, at::kLong));
  }
  return observation;
}

at::Tensor by_name(const torch::nn::Module& module, const std::string& name) {
  return module.named_parameters()[name].detach();
}
at::Tensor convolved(const torch::nn::Module& torso, const std::string& name, const at::Tensor& x, std::int64_t stride,
                     std::int64_t padding) {
  return at::conv2d(x, by_name(torso, name + ".weight"), by_name(torso, name + ".bias"), {stride, stride},
                    {padding, padding});
}

TEST(TorsoTest, TheNatureCnnIsThatOfThePaper) {
  at::Generator random = model::seeded(1);
  const auto torso = make_torso(Torso::kNatureCnn, {}, image_leaf(4, 84, 84), random);
  EXPECT_EQ(torso->features(), 3136);
  const at::Tensor image = random_rows(image_spec(4, 84, 84), 2, 2)[0];
  at::Tensor x = image.to(at::kFloat) / 255;
  x = at::relu(convolved(*torso, "conv_0", x, 4, 0));
  EXPECT_EQ(x.sizes(), (std::vector<std::int64_t>{2, 32, 20, 20}));
  x = at::relu(convolved(*torso, "conv_1", x, 2, 0));
  EXPECT_EQ(x.sizes(), (std::vector<std::int64_t>{2, 64, 9, 9}));
  x = at::relu(convolved(*torso, "conv_2", x, 1, 0));
  EXPECT_EQ(x.sizes(), (std::vector<std::int64_t>{2, 64, 7, 7}));
  EXPECT_TRUE(at::allclose(torso->forward(image), x.flatten(1), 1e-4, 1e-5));
}

TEST(TorsoTest, TheResidualTorsoIsThatOfThePaper) {
  at::Generator random = model::seeded(1);
  const auto torso = make_torso(Torso::kResidual, {}, image_leaf(3, 72, 96), random);
  EXPECT_EQ(torso->features(), 32 * 9 * 12);
  std::size_t layers = 0;
  for (const auto& item : torso->named_parameters()) layers += item.value().dim() == 4 ? 1 : 0;
  EXPECT_EQ(layers, 15U);
  const at::Tensor image = random_rows(image_spec(3, 72, 96), 2, 2)[0];
  at::Tensor x = image.to(at::kFloat) / 255;
  for (const std::string section : {"section_0", "section_1", "section_2"}) {
    x = at::max_pool2d(convolved(*torso, section + "_first", x, 1, 1), {3, 3}, {2, 2}, {1, 1});
    for (const std::string block : {"_block_0_", "_block_1_"}) {
      const at::Tensor inner = convolved(*torso, section + block + "0", at::relu(x), 1, 1);
      x = x + convolved(*torso, section + block + "1", at::relu(inner), 1, 1);
    }
  }
  EXPECT_TRUE(at::allclose(torso->forward(image), at::relu(x).flatten(1), 1e-3, 1e-4));
}

TEST(TorsoTest, PixelsAreDividedByTheLargestThatTheSpecAllows) {
  at::Generator random = model::seeded(1);
  Leaf binary = image_leaf(1, 8, 8);
  binary.low = std::vector<double>(64, 0);
  binary.high = std::vector<double>(64, 1);
  const auto of_bytes = make_torso(Torso::kResidual, {}, image_leaf(1, 8, 8), random);
  random = model::seeded(1);
  const auto of_bits = make_torso(Torso::kResidual, {}, binary, random);
  const at::Tensor bits = at::randint(0, 2, {3, 1, 8, 8}, model::seeded(2), at::kByte);
  EXPECT_TRUE(of_bits->forward(bits).equal(of_bytes->forward(bits * 255)));
  EXPECT_FALSE(of_bits->forward(bits).equal(of_bytes->forward(bits)));
}

TEST(TorsoTest, AutoIsTheNatureCnnForLargeImagesTheResidualOneForSmallAndNoneWithout) {
  EXPECT_EQ(chosen_torso({}, image_spec(4, 84, 84)), Torso::kNatureCnn);
  EXPECT_EQ(chosen_torso({}, image_spec(1, 36, 36)), Torso::kNatureCnn);
  EXPECT_EQ(chosen_torso({}, image_spec(1, 36, 35)), Torso::kResidual);
  EXPECT_EQ(chosen_torso({}, mixed_image_spec()), Torso::kResidual);
  EXPECT_EQ(chosen_torso({.kind = Torso::kNone}, image_spec(4, 84, 84)), Torso::kNone);
  Spec vector = image_spec(1, 8, 8);
  vector.observation[0].shape = {64};
  EXPECT_EQ(chosen_torso({}, vector), Torso::kNone);
}

TEST(TorsoTest, WhatDoesNotFitIsRefusedWithWhatWould) {
  const auto refusal = [](const TorsoOptions& options, const Spec& spec) {
    return message_of<ConfigError>([&] { (void)chosen_torso(options, spec); });
  };
  EXPECT_THAT(refusal({.kind = Torso::kNatureCnn}, image_spec(1, 35, 80)),
              AllOf(HasSubstr("uint8[1, 35, 80]"), HasSubstr("at least 36"), HasSubstr("use the torso residual")));
  EXPECT_THAT(refusal({}, image_spec(84, 84, 4)),  // channels last
              AllOf(HasSubstr("sides of at least 8"), HasSubstr("[channels, height, width]")));
  EXPECT_EQ(chosen_torso({.channels = {8, 8}}, image_spec(84, 84, 4)), Torso::kResidual);
  Spec vector = image_spec(1, 8, 8);
  vector.observation[0].type = ElementType::kFloat32;
  EXPECT_THAT(refusal({.kind = Torso::kResidual}, vector), HasSubstr("none of its observations is one"));
  EXPECT_THAT(refusal({.channels = {}}, image_spec(1, 8, 8)), HasSubstr("0 sections"));
  EXPECT_THAT(refusal({.channels = {8, 0}, .blocks = -1}, image_spec(1, 8, 8)),
              AllOf(HasSubstr("0 channels"), HasSubstr("-1 residual blocks")));
}

TEST(TorsoTest, BothHeadsTeachTheTorsoAndEqualGeneratorsGiveEqualTorsos) {
  for (const Trunks trunks : {Trunks::kShared, Trunks::kSeparate}) {
    const MlpPolicyOptions options{.hidden = {8}, .trunks = trunks};
    MlpPolicy policy(mixed_image_spec(), options, model::seeded(1)),
        same(mixed_image_spec(), options, model::seeded(1));
    const Observation rows = random_rows(mixed_image_spec(), 5, 2);
    EXPECT_TRUE(policy.forward(rows).value.equal(same.forward(rows).value));
    const at::Tensor weight = policy.named_parameters()["torso.1.section_0_first.weight"];
    policy.forward(rows).value.sum().backward();
    EXPECT_GT(weight.grad().abs().sum().item<float>(), 0);
    weight.mutable_grad().zero_();
    policy.forward(rows).action_parameters[0].square().sum().backward();
    EXPECT_GT(weight.grad().abs().sum().item<float>(), 0);
  }
}

TEST(TorsoTest, OtherLeavesGoRoundTheTorso) {
  const Spec spec = mixed_image_spec();
  MlpPolicy policy(spec, {.hidden = {8}, .policy_gain = 1}, model::seeded(1));
  const Observation rows = random_rows(spec, 4, 2);
  const at::Tensor before = policy.forward(rows).value;
  for (const std::size_t leaf : {0, 1, 2}) {
    Observation changed = rows;
    changed[leaf] = leaf == 2 ? (rows[leaf] + 1).remainder(4) : rows[leaf].roll(1, 0);
    EXPECT_FALSE(policy.forward(changed).value.equal(before)) << leaf;
  }
  Observation wrong = rows;
  wrong[1] = rows[1].to(at::kFloat);
  EXPECT_THROW((void)policy.forward(wrong), ConfigError);
}

// By the kernels, which take the parameters at refresh(), and by tensor operations.
TEST(TorsoTest, APolicyWithATorsoActsAsItsForwardSays) {
  const Spec spec = mixed_image_spec();
  MlpPolicy policy(spec, {.policy_gain = 3}, model::seeded(1));
  MlpActor kernels(policy, {.acting = Acting::kMode}, 6, 1);
  ModuleActor module(policy, {.acting = Acting::kMode}, 6, 1);
  {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& parameter : policy.parameters()) parameter.mul_(1.2);
  }
  const Observation rows = random_rows(spec, 6, 3);
  const PolicyOutput output = policy.forward(rows);
  for (Actor* actor : {static_cast<Actor*>(&kernels), static_cast<Actor*>(&module)}) {
    std::vector<std::int64_t> action(6);
    std::vector<float> log_prob(6), value(6);
    actor->refresh();
    actor->act(rows, {}, {.discrete = action.data(), .log_prob = log_prob.data(), .value = value.data()});
    EXPECT_TRUE(at::tensor(action).equal(output.action_parameters[0].argmax(1)));
    EXPECT_TRUE(at::allclose(at::tensor(value), output.value, 1e-5, 1e-5));
  }
}

TEST(TorsoTest, ARecurrentPolicyHasOneToo) {
  const Spec spec = mixed_image_spec();
  RecurrentPolicy policy(spec, {.mlp = {.hidden = {8}}, .size = 4}, model::seeded(1));
  constexpr std::int64_t kStepsOfEach = 5, kSequencesOfTest = 3;
  const Observation rows = random_rows(spec, kStepsOfEach * kSequencesOfTest, 2);
  at::Tensor state = at::zeros({kSequencesOfTest, policy.state_size()});
  const at::Tensor all =
      policy.forward_sequences({.observation = rows, .state = state, .start = {}}).output.action_parameters[0];
  for (std::int64_t t = 0; t < kStepsOfEach; ++t) {
    Observation step;
    for (const at::Tensor& leaf : rows) step.push_back(leaf.narrow(0, t * kSequencesOfTest, kSequencesOfTest));
    const SequenceOutput one = policy.forward_sequences({.observation = step, .state = state, .start = {}});
    EXPECT_TRUE(at::allclose(one.output.action_parameters[0], all.narrow(0, t * kSequencesOfTest, kSequencesOfTest),
                             1e-4, 1e-5));
    state = one.state;
  }
  EXPECT_TRUE(policy.named_parameters().contains("torso.1.section_2_block_1_1.bias"));
}

void expect_exported(const Spec& spec, const TorsoOptions& torso) {
  MlpPolicy policy(spec, {.hidden = {16}, .policy_gain = 3, .torso = torso}, model::seeded(4));
  torch::jit::Module script = make_script(policy, nullptr);
  const Observation rows = random_rows(spec, 20, 5);
  const PolicyOutput expected = policy.forward(rows);
  const c10::IValue input = rows.size() == 1 ? c10::IValue(rows[0]) : c10::IValue(rows);
  const auto result = script.forward({input}).toTuple();
  EXPECT_TRUE(at::allclose(result->elements()[0].toTensorList().get(0), expected.action_parameters[0], 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(result->elements()[1].toTensor(), expected.value, 1e-4, 1e-5));
  const at::Tensor action = script.get_method("act")({input}).toTensor();
  EXPECT_TRUE(action.equal(expected.action_parameters[0].argmax(1)));
  EXPECT_GT(expected.action_parameters[0].std(0).min().item<float>(), 1e-3) << "the same everywhere shows nothing";
}

TEST(TorsoTest, ExportedToTorchScriptItComputesTheSame) {
  expect_exported(image_spec(4, 84, 84), {});
  expect_exported(image_spec(1, 12, 12), {.channels = {8, 16}, .blocks = 1});
  expect_exported(image_spec(1, 12, 12), {.channels = {8}, .blocks = 0});
  expect_exported(mixed_image_spec(), {});
  Spec two = mixed_image_spec();
  two.observation.push_back(image_leaf(1, 40, 40));
  two.observation.back().name = "second";
  expect_exported(two, {});
}

}  // namespace
}  // namespace tandem::rl
