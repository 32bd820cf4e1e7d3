#include "tandem/rl/policy/recurrent_policy.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/rnn.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "tandem/base/error.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/policy/actor/actors.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {
namespace {

constexpr std::int64_t kSteps = 9, kEnvs = 4, kInputs = 3, kSize = 5;

at::Tensor some_starts() {
  const at::Tensor start = torch::zeros({kSteps, kEnvs}, torch::kByte);
  start[0][1].fill_(1);
  start[4][0].fill_(1);
  start[4][2].fill_(1);
  start[8][2].fill_(1);
  return start;
}

// Gives torch's layer the weights of ours.
template <typename Layer>
Layer like(RecurrentCell& cell) {
  Layer layer(kInputs, kSize);
  const at::NoGradGuard no_grad;
  for (const char* name : {"weight_ih", "weight_hh", "bias_ih", "bias_hh"})
    layer->named_parameters()[std::string(name) + "_l0"].copy_(cell.named_parameters()[name]);
  return layer;
}

// What torch's layer gives for one row, which forgets where an episode begins.
at::Tensor by_episodes(RecurrentCell& cell, CellKind kind, const at::Tensor& x, const at::Tensor& state,
                       const at::Tensor& start) {
  std::vector<at::Tensor> outputs;
  at::Tensor h = state.narrow(0, 0, kSize).view({1, 1, -1}).contiguous();
  at::Tensor c = kind == CellKind::kLstm ? state.narrow(0, kSize, kSize).view({1, 1, -1}).contiguous() : at::Tensor();
  for (std::int64_t begin = 0, t = 1; t <= kSteps; ++t) {
    if (t < kSteps && start[t].item<int>() == 0) continue;
    if (start[begin].item<int>() != 0) {
      h = torch::zeros_like(h);
      if (c.defined()) c = torch::zeros_like(c);
    }
    const at::Tensor episode = x.slice(0, begin, t).unsqueeze(1);
    if (kind == CellKind::kLstm) {
      auto [output, last] = like<torch::nn::LSTM>(cell)->forward(episode, std::make_tuple(h, c));
      outputs.push_back(output.squeeze(1));
      std::tie(h, c) = last;
    } else {
      auto [output, last] = like<torch::nn::GRU>(cell)->forward(episode, h);
      outputs.push_back(output.squeeze(1));
      h = last;
    }
    begin = t;
  }
  return torch::cat(outputs);
}

class RecurrentCellTest : public ::testing::TestWithParam<CellKind> {};

TEST_P(RecurrentCellTest, EqualsTorchsLayerOverEachEpisodeOnItsOwn) {
  torch::manual_seed(2);
  RecurrentCell cell(GetParam(), kInputs, kSize, at::detail::createCPUGenerator(1));
  {
    const at::NoGradGuard no_grad;
    for (const char* bias : {"bias_ih", "bias_hh"}) cell.named_parameters()[bias].uniform_(-1, 1);
  }
  const at::Tensor x = torch::randn({kSteps, kEnvs, kInputs}), state = torch::randn({kEnvs, cell.state_size()});
  const at::Tensor start = some_starts();
  const RecurrentCell::Output output = cell.forward(x, state, start);
  for (std::int64_t row = 0; row < kEnvs; ++row) {
    const at::Tensor expected =
        by_episodes(cell, GetParam(), x.select(1, row), state[row], start.select(1, row).contiguous());
    EXPECT_TRUE(torch::allclose(output.steps.select(1, row), expected, 1e-5, 1e-6)) << row;
  }
  EXPECT_TRUE(torch::equal(output.state.narrow(1, 0, kSize), output.steps[kSteps - 1]));
}

INSTANTIATE_TEST_SUITE_P(Kinds, RecurrentCellTest, ::testing::Values(CellKind::kLstm, CellKind::kGru),
                         [](const auto& test) { return test.param == CellKind::kLstm ? "lstm" : "gru"; });

class RecurrentPolicyTest : public ::testing::TestWithParam<std::tuple<const char*, CellKind, Trunks>> {
 protected:
  Spec spec = EnvRegistry::native().spec(std::get<0>(GetParam()));
  RecurrentPolicy policy{spec,
                         {.mlp = {.hidden = {6}, .trunks = std::get<2>(GetParam()), .policy_gain = 1},
                          .cell = std::get<1>(GetParam()),
                          .size = kSize},
                         at::detail::createCPUGenerator(1)};
  std::int64_t elements = spec.observation[0].count();
  at::Tensor observation = torch::randn({kSteps * kEnvs, elements});
};

TEST_P(RecurrentPolicyTest, ASequenceIsWorthItsStepsOneByOne) {
  const at::Tensor start = some_starts();
  const at::Tensor state = torch::randn({kEnvs, policy.state_size()});
  const SequenceOutput whole = policy.forward_sequences({.observation = {observation}, .state = state, .start = start});
  const PolicyOutput pieces =
      forward_in_pieces(policy, {.observation = {observation}, .state = state, .start = start}, {4, 4, 1});
  at::Tensor carried = state;
  for (std::int64_t t = 0; t < kSteps; ++t) {
    carried = carried * (1 - start[t].unsqueeze(1).to(torch::kFloat));
    const SequenceOutput step = policy.forward_sequences(
        {.observation = {observation.narrow(0, t * kEnvs, kEnvs)}, .state = carried, .start = {}});
    carried = step.state;
    const auto of_step = [&](const at::Tensor& rows) { return rows.narrow(0, t * kEnvs, kEnvs); };
    const PolicyOutput part = map_rows(whole.output, kSteps * kEnvs, of_step);
    const PolicyOutput piece = map_rows(pieces, kSteps * kEnvs, of_step);
    EXPECT_TRUE(torch::allclose(part.value, step.output.value, 1e-5, 1e-6)) << t;
    EXPECT_TRUE(torch::allclose(piece.value, step.output.value, 1e-5, 1e-6)) << t;
    for (std::size_t i = 0; i < part.action_parameters.size(); ++i) {
      EXPECT_TRUE(torch::allclose(part.action_parameters[i], step.output.action_parameters[i], 1e-5, 1e-6)) << t;
      EXPECT_TRUE(torch::allclose(piece.action_parameters[i], step.output.action_parameters[i], 1e-5, 1e-6)) << t;
    }
  }
  EXPECT_TRUE(torch::allclose(whole.state, carried, 1e-5, 1e-6));
}

TEST_P(RecurrentPolicyTest, GradientsEndWherePiecesMeet) {
  const auto gradient = [&](const std::vector<std::int64_t>& lengths) {
    const at::Tensor x = observation.clone().requires_grad_();
    const PolicyOutput output = forward_in_pieces(
        policy, {.observation = {x}, .state = torch::zeros({kEnvs, policy.state_size()}), .start = {}}, lengths);
    output.value.narrow(0, (kSteps - 1) * kEnvs, kEnvs).sum().backward();
    return x.grad().view({kSteps, kEnvs * elements}).abs().sum(1);
  };
  const at::Tensor whole = gradient({kSteps}), cut = gradient({4, 5});
  for (std::int64_t t = 0; t < kSteps; ++t) {
    EXPECT_GT(whole[t].item<float>(), 0) << t;
    EXPECT_EQ(cut[t].item<float>() > 0, t >= 4) << t;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, RecurrentPolicyTest,
                         ::testing::Combine(::testing::Values("MaskedCartPole-v1", "MaskedPendulum-v1"),
                                            ::testing::Values(CellKind::kLstm, CellKind::kGru),
                                            ::testing::Values(Trunks::kSeparate, Trunks::kShared)));

Decisions decisions(std::vector<std::int64_t>& action, std::vector<float>& log_prob, std::vector<float>& value) {
  return {.discrete = action.data(), .log_prob = log_prob.data(), .value = value.data()};
}

TEST(RecurrentActorTest, RemembersFromStepToStepAndForgetsWithTheEpisode) {
  const Spec spec = EnvRegistry::native().spec("MaskedCartPole-v1");
  RecurrentPolicy policy(spec, {}, at::detail::createCPUGenerator(1));
  ModuleActor actor(policy, {}, 2, 7);
  std::vector<std::int64_t> action(2);
  std::vector<float> log_prob(2), first(2), second(2), third(2), alone(2);
  const at::Tensor x = torch::randn({2, 2});
  actor.act({x}, {}, decisions(action, log_prob, first));
  const at::Tensor after = actor.state().clone();
  actor.evaluate({x}, after, alone.data());
  EXPECT_TRUE(torch::equal(actor.state(), after));
  actor.act({x}, {}, decisions(action, log_prob, second));
  EXPECT_EQ(second, alone);
  EXPECT_NE(second, first);
  actor.episodes_ended(std::vector<std::uint8_t>{0, 1});
  EXPECT_EQ(actor.state()[1].abs().sum().item<float>(), 0);
  actor.act({x}, {}, decisions(action, log_prob, third));
  EXPECT_FLOAT_EQ(third[1], first[1]);
  EXPECT_NE(third[0], first[0]);
}

TEST(RecurrentActorTest, ASavedActorRemembersWhatItDid) {
  const Spec spec = EnvRegistry::native().spec("MaskedCartPole-v1");
  RecurrentPolicy policy(spec, {.cell = CellKind::kGru}, at::detail::createCPUGenerator(1));
  ModuleActor first(policy, {}, 2, 7), second(policy, {}, 2, 8);
  std::vector<std::int64_t> action(2), other_action(2);
  std::vector<float> log_prob(2), value(2), other_value(2);
  const at::Tensor x = torch::randn({2, 2});
  first.act({x}, {}, decisions(action, log_prob, value));
  second.load(first.save());
  for (int step = 0; step < 5; ++step) {
    first.act({x}, {}, decisions(action, log_prob, value));
    second.act({x}, {}, decisions(other_action, log_prob, other_value));
    EXPECT_EQ(other_action, action);
    EXPECT_EQ(other_value, value);
  }
  RecurrentPolicy larger(spec, {.cell = CellKind::kGru, .size = 65}, at::detail::createCPUGenerator(1));
  ModuleActor of_larger(larger, {}, 2, 7);
  EXPECT_THROW(of_larger.load(first.save()), CheckpointError);
}

TEST(RecurrentPolicyOptionsTest, WhatCannotBeIsRefused) {
  const Spec spec = EnvRegistry::native().spec("MaskedCartPole-v1");
  EXPECT_THROW(RecurrentPolicy(spec, {.size = 0}, at::detail::createCPUGenerator(1)), ConfigError);
  EXPECT_THROW(RecurrentPolicy(spec, {.mlp = {.hidden = {0}}}, at::detail::createCPUGenerator(1)), ConfigError);
  const RecurrentPolicy policy(spec, {}, at::detail::createCPUGenerator(1));
  EXPECT_THROW((void)policy.script(), ConfigError);
}

}  // namespace
}  // namespace tandem::rl
