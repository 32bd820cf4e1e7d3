#include "tandem/model/optimizer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tandem/base/error.h"

namespace tandem::model {
namespace {

using torch::nn::Linear;
using torch::nn::Module;

at::Tensor allocate_on_cpu(std::int64_t count, at::ScalarType dtype) { return at::empty({count}, dtype); }

std::shared_ptr<torch::nn::SequentialImpl> make_net(at::ScalarType dtype = at::kFloat) {
  torch::manual_seed(11);
  torch::nn::Sequential net(Linear(5, 17), torch::nn::Tanh(), Linear(17, 9), torch::nn::Tanh(), Linear(9, 3));
  net->to(dtype);
  return net.ptr();
}

// Step `step`'s loss leaves out the last layer in every third step: then it has no gradient.
at::Tensor loss_of(torch::nn::SequentialImpl& net, int step) {
  at::Tensor x = at::arange(20, at::kFloat).view({4, 5}).add(step).sin().to(net.parameters()[0].scalar_type());
  std::size_t layers = step % 3 == 2 ? 4 : 5;
  for (const auto& layer : net.children()) {
    if (layers-- == 0) break;
    const auto* linear = layer->as<torch::nn::LinearImpl>();
    x = linear ? at::linear(x, linear->weight, linear->bias) : x.tanh();
  }
  return x.square().sum();
}

double worst_difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const at::Tensor size = b[i].detach().to(at::kDouble).abs().clamp_min(1e-2);
    const at::Tensor off = (a[i].detach().to(at::kDouble) - b[i].detach().to(at::kDouble)).abs();
    worst = std::max(worst, off.div(size).max().item<double>());
  }
  return worst;
}

using MakeReference = std::function<std::shared_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;

struct Case {
  const char* name;
  OptimizerOptions options;
  MakeReference reference;
};

std::vector<Case> cases() {
  namespace optim = torch::optim;
  return {
      {"adam", AdamOptions{.lr = 3e-3},
       [](const auto& p) { return std::make_shared<optim::Adam>(p, optim::AdamOptions(3e-3)); }},
      {"adam_l2", AdamOptions{.lr = 3e-3, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-5, .weight_decay = 0.1},
       [](const auto& p) {
         return std::make_shared<optim::Adam>(p,
                                              optim::AdamOptions(3e-3).betas({0.8, 0.95}).eps(1e-5).weight_decay(0.1));
       }},
      {"adamw", AdamOptions{.lr = 3e-3, .weight_decay = 0.1, .decay = AdamOptions::Decay::kDecoupled},
       [](const auto& p) { return std::make_shared<optim::AdamW>(p, optim::AdamWOptions(3e-3).weight_decay(0.1)); }},
      {"sgd", SgdOptions{.lr = 1e-2, .weight_decay = 0.01},
       [](const auto& p) { return std::make_shared<optim::SGD>(p, optim::SGDOptions(1e-2).weight_decay(0.01)); }},
      {"sgd_momentum", SgdOptions{.lr = 1e-2, .momentum = 0.9, .dampening = 0.1},
       [](const auto& p) {
         return std::make_shared<optim::SGD>(p, optim::SGDOptions(1e-2).momentum(0.9).dampening(0.1));
       }},
      {"sgd_nesterov", SgdOptions{.lr = 1e-2, .momentum = 0.9, .kind = SgdOptions::Momentum::kNesterov},
       [](const auto& p) {
         return std::make_shared<optim::SGD>(p, optim::SGDOptions(1e-2).momentum(0.9).nesterov(true));
       }},
      {"rmsprop", RmspropOptions{.lr = 1e-3, .weight_decay = 0.05},
       [](const auto& p) {
         return std::make_shared<optim::RMSprop>(p, optim::RMSpropOptions(1e-3).weight_decay(0.05));
       }},
      {"rmsprop_momentum", RmspropOptions{.lr = 1e-3, .alpha = 0.9, .momentum = 0.7},
       [](const auto& p) {
         return std::make_shared<optim::RMSprop>(p, optim::RMSpropOptions(1e-3).alpha(0.9).momentum(0.7));
       }},
  };
}

class OptimizerLawTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  const Case case_ = cases()[GetParam()];
};

// 30 steps in which the gradients of the last layer are missing every third time, the first included, and the learning
// rate changes once.
TEST_P(OptimizerLawTest, FollowsTorchOptimWithAbsentParametersLeftAlone) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    auto ours = make_net(dtype), theirs = make_net(dtype);
    FlatParameters flat(ours, {});
    auto gradients = flat.make_gradients(allocate_on_cpu);
    Optimizer optimizer(flat, {case_.options});
    auto reference = case_.reference(theirs->parameters());
    for (int step = 2; step < 32; ++step) {
      flat.bind(gradients);
      loss_of(*ours, step).backward();
      flat.collect();
      const at::Tensor before = gradients.flat[0].clone();
      optimizer.step(gradients, 0.125, step < 15 ? 1.0 : 0.5);
      ASSERT_TRUE(gradients.flat[0].equal(before)) << "the gradients were changed";

      reference->zero_grad();
      (loss_of(*theirs, step) * 0.125).backward();
      if (step == 15) {
        auto& options = reference->param_groups()[0].options();
        options.set_lr(options.get_lr() * 0.5);
      }
      reference->step();
    }
    EXPECT_LT(worst_difference(ours->parameters(), theirs->parameters()), dtype == at::kFloat ? 2e-6 : 1e-12);
    // The gaps between the parameters are still zero.
    at::Tensor rest = flat.buffers()[0].values.clone();
    for (const auto& slot : flat.buffers()[0].slots) rest.narrow(0, slot.offset, slot.count).zero_();
    EXPECT_EQ(rest.count_nonzero().item<std::int64_t>(), 0);
  }
}

TEST_P(OptimizerLawTest, AnAbsentParameterKeepsValueMomentsAndStepCount) {
  auto net = make_net();
  FlatParameters flat(net, {});
  auto gradients = flat.make_gradients(allocate_on_cpu);
  Optimizer optimizer(flat, {case_.options});
  const auto step = [&](int number) {
    flat.bind(gradients);
    loss_of(*net, number).backward();
    flat.collect();
    optimizer.step(gradients, 1, 1);
  };
  step(0);
  const auto& last = flat.buffers()[0].slots[4];
  std::vector<at::Tensor> before{flat.buffers()[0].values.slice(0, last.offset).clone()};
  for (const auto& [name, tensor] : optimizer.state()) {
    before.push_back((name == "step.f32" ? tensor.slice(0, 4) : tensor.slice(0, last.offset)).clone());
  }
  step(2);
  EXPECT_TRUE(flat.buffers()[0].values.slice(0, last.offset).equal(before[0]));
  std::size_t i = 1;
  for (const auto& [name, tensor] : optimizer.state()) {
    const bool counts = name == "step.f32";
    EXPECT_TRUE((counts ? tensor.slice(0, 4) : tensor.slice(0, last.offset)).equal(before[i++])) << name;
    if (counts) {
      EXPECT_TRUE(tensor.equal(at::tensor({2, 2, 2, 2, 1, 1}, at::kLong)));
    }
  }
}

// How the parameters are cut into calls must not show: one by one, with different counts, or in one go.
TEST_P(OptimizerLawTest, TheBitsDoNotDependOnWhatElseIsPresent) {
  const auto run = [&](bool together) {
    auto net = make_net();
    FlatParameters flat(net, {});
    auto gradients = flat.make_gradients(allocate_on_cpu);
    Optimizer optimizer(flat, {case_.options});
    for (int step = 0; step < 60; step += 3) {
      flat.bind(gradients);
      loss_of(*net, step).backward();
      flat.collect();
      for (std::int64_t s = 0; s < 6; ++s) {
        if (!together) {
          gradients.presence[0].zero_();
          gradients.presence[0][s].fill_(1);
        }
        if (s == 0 || !together) optimizer.step(gradients, 0.3, 1);
      }
    }
    return flat.buffers()[0].values.clone();
  };
  EXPECT_TRUE(run(true).equal(run(false)));
}

INSTANTIATE_TEST_SUITE_P(AllRules, OptimizerLawTest, ::testing::Range<std::size_t>(0, 8),
                         [](const auto& chosen) { return std::string(cases()[chosen.param].name); });

TEST(OptimizerTest, AVectorLongerThanOneCallIsUpdatedWhole) {
  auto net = std::make_shared<Module>();
  at::Tensor p = net->register_parameter("p", at::zeros({300001}));
  FlatParameters flat(net, {});
  auto gradients = flat.make_gradients(allocate_on_cpu);
  Optimizer optimizer(flat, {SgdOptions{.lr = 1}});
  flat.bind(gradients);
  p.mutable_grad() = at::arange(300001, at::kFloat);
  flat.collect();
  optimizer.step(gradients, 0.5, 1);
  EXPECT_TRUE(p.equal(at::arange(300001, at::kFloat) * -0.5F));
}

TEST(OptimizerTest, GroupsHaveTheirOwnNumbersAndKeepTheirRatio) {
  auto net = make_net();
  FlatParameters flat(net, {{{"body", {}}, {"head", {"4"}}}, {}});
  auto gradients = flat.make_gradients(allocate_on_cpu);
  Optimizer optimizer(flat, {SgdOptions{.lr = 0.1}, SgdOptions{.lr = 0.3}});
  const auto head = std::ranges::find(flat.buffers()[0].slots, 1, &ParameterSlot::group);
  const auto moved = [&] {
    const at::Tensor before = flat.buffers()[0].values.clone();
    flat.bind(gradients);
    for (auto& parameter : net->parameters()) parameter.mutable_grad().fill_(1);
    flat.collect();
    optimizer.step(gradients, 1, 1);
    const at::Tensor change = before - flat.buffers()[0].values;
    return std::pair(change[0].item<double>(), change[head->offset].item<double>());
  };
  const auto first = moved();
  EXPECT_NEAR(first.first, 0.1, 1e-6);
  EXPECT_NEAR(first.second, 0.3, 1e-6);
  optimizer.set_learning_rate(0);
  EXPECT_EQ(moved(), std::pair(0.0, 0.0));
  optimizer.set_learning_rate(0.2);
  EXPECT_EQ(optimizer.learning_rate(), 0.2);
  const auto last = moved();
  EXPECT_NEAR(last.first, 0.2, 1e-6);
  EXPECT_NEAR(last.second, 0.6, 1e-6);
  EXPECT_THROW(optimizer.set_learning_rate(std::nan("")), ConfigError);
}

// Torch's groups of one optimizer, each with options of its own, over steps in which the head's gradient is missing at
// times.
template <typename Reference, typename TheirOptions>
void expect_groups_follow_torch(const std::vector<OptimizerOptions>& ours_of, const TheirOptions& body,
                                const TheirOptions& head) {
  auto ours = make_net(at::kDouble), theirs = make_net(at::kDouble);
  FlatParameters flat(ours, {{{"body", {}}, {"head", {"4"}}}, {}});
  auto gradients = flat.make_gradients(allocate_on_cpu);
  Optimizer optimizer(flat, ours_of);
  std::vector<at::Tensor> of_body = theirs->parameters();
  const std::vector<at::Tensor> of_head(of_body.end() - 2, of_body.end());
  of_body.resize(of_body.size() - 2);
  Reference reference(std::vector<torch::optim::OptimizerParamGroup>{{of_body, std::make_unique<TheirOptions>(body)},
                                                                     {of_head, std::make_unique<TheirOptions>(head)}},
                      TheirOptions(1e-3));  // LibTorch fills options of groups from these
  for (int step = 2; step < 12; ++step) {
    flat.bind(gradients);
    loss_of(*ours, step).backward();
    flat.collect();
    optimizer.step(gradients, 0.125, 1);
    reference.zero_grad();
    (loss_of(*theirs, step) * 0.125).backward();
    reference.step();
  }
  EXPECT_LT(worst_difference(ours->parameters(), theirs->parameters()), 1e-12) << ours_of[0].index();
}

TEST(OptimizerTest, GroupsOfOneKindMayDifferInEveryOption) {
  namespace optim = torch::optim;
  using Kind = SgdOptions::Momentum;
  const optim::SGDOptions plain(0.1);
  for (const bool first_has_it : {true, false}) {
    const SgdOptions with{.lr = 0.05, .momentum = 0.9, .dampening = 0.2, .weight_decay = 0.01}, without{.lr = 0.1};
    const auto theirs = optim::SGDOptions(0.05).momentum(0.9).dampening(0.2).weight_decay(0.01);
    expect_groups_follow_torch<optim::SGD>(
        first_has_it ? std::vector<OptimizerOptions>{with, without} : std::vector<OptimizerOptions>{without, with},
        first_has_it ? theirs : plain, first_has_it ? plain : theirs);
  }
  expect_groups_follow_torch<optim::SGD>(
      {SgdOptions{.lr = 0.1, .momentum = 0.8, .kind = Kind::kNesterov}, SgdOptions{.lr = 0.1, .momentum = 0.5}},
      optim::SGDOptions(0.1).momentum(0.8).nesterov(true), optim::SGDOptions(0.1).momentum(0.5));
  expect_groups_follow_torch<optim::RMSprop>(
      {RmspropOptions{.lr = 1e-3, .weight_decay = 0.1}, RmspropOptions{.lr = 2e-3, .alpha = 0.9, .momentum = 0.7}},
      optim::RMSpropOptions(1e-3).weight_decay(0.1), optim::RMSpropOptions(2e-3).alpha(0.9).momentum(0.7));
  expect_groups_follow_torch<optim::Adam>(
      {AdamOptions{.lr = 1e-3}, AdamOptions{.lr = 2e-3, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-5, .weight_decay = 0.1}},
      optim::AdamOptions(1e-3), optim::AdamOptions(2e-3).betas({0.8, 0.9}).eps(1e-5).weight_decay(0.1));
}

TEST(OptimizerTest, AStateThatIsCopiedOverContinuesWithTheSameBits) {
  auto one = make_net(), two = make_net();
  FlatParameters flat_one(one, {}), flat_two(two, {});
  auto gradients_one = flat_one.make_gradients(allocate_on_cpu),
       gradients_two = flat_two.make_gradients(allocate_on_cpu);
  Optimizer first(flat_one, {AdamOptions{}}), second(flat_two, {AdamOptions{}});
  const auto step = [](auto& net, auto& flat, auto& gradients, auto& optimizer, int number) {
    flat.bind(gradients);
    loss_of(*net, number).backward();
    flat.collect();
    optimizer.step(gradients, 1, 1);
  };
  for (int s = 0; s < 4; ++s) step(one, flat_one, gradients_one, first, s);
  flat_two.buffers()[0].values.copy_(flat_one.buffers()[0].values);
  const auto from = first.state(), to = second.state();
  for (std::size_t i = 0; i < from.size(); ++i) to[i].second.copy_(from[i].second);
  second.state_changed();
  for (int s = 4; s < 8; ++s) {
    step(one, flat_one, gradients_one, first, s);
    step(two, flat_two, gradients_two, second, s);
  }
  EXPECT_TRUE(flat_one.buffers()[0].values.equal(flat_two.buffers()[0].values));
}

TEST(OptimizerTest, EveryNumberOutOfRangeIsReported) {
  FlatParameters flat(make_net(), {});
  const auto faults = [&](const OptimizerOptions& options) -> std::size_t {
    try {
      Optimizer optimizer(flat, {options});
      return 0;
    } catch (const ConfigError& error) {
      return error.faults().size();
    }
  };
  EXPECT_EQ(faults(AdamOptions{.lr = -1, .beta1 = 1, .beta2 = -0.1, .eps = 0, .weight_decay = std::nan("")}), 5U);
  EXPECT_EQ(faults(SgdOptions{.lr = INFINITY, .momentum = -1, .weight_decay = -1}), 3U);
  EXPECT_EQ(faults(SgdOptions{.dampening = 0.5, .kind = SgdOptions::Momentum::kNesterov}), 2U);
  EXPECT_EQ(faults(RmspropOptions{.lr = -1, .alpha = 1.5, .eps = 0, .weight_decay = -1, .momentum = -1}), 5U);
  EXPECT_EQ(faults(AdamOptions{}), 0U);
  EXPECT_THROW(Optimizer(flat, {AdamOptions{}, AdamOptions{}}), ConfigError);
}

struct Table : Module {
  torch::nn::Embedding rows{nullptr};
  Table() {
    torch::manual_seed(5);
    rows = register_module("rows", torch::nn::Embedding(torch::nn::EmbeddingOptions(8, 3).sparse(true)));
  }
  at::Tensor loss(const at::Tensor& ids) { return rows(ids).square().sum(); }
};

TEST(OptimizerSparseTest, SgdMovesTheRowsInUseOnly) {
  auto net = std::make_shared<Table>();
  FlatParameters flat(net, {});
  auto gradients = flat.make_gradients(allocate_on_cpu);
  Optimizer optimizer(flat, {SgdOptions{.lr = 0.1}});
  const at::Tensor before = net->rows->weight.detach().clone();
  flat.bind(gradients);
  net->loss(at::tensor({2, 2, 5}, at::kLong)).backward();
  flat.collect();
  optimizer.step(gradients, 0.5, 1);
  at::Tensor expected = before.clone();
  expected[2] -= 0.1 * 0.5 * 4 * before[2];  // used twice
  expected[5] -= 0.1 * 0.5 * 2 * before[5];
  EXPECT_TRUE(net->rows->weight.allclose(expected));
  EXPECT_TRUE(net->rows->weight[0].equal(before[0]));
}

// torch.optim.SparseAdam, written out for one row that is used in steps 1 and 3 of 3.
TEST(OptimizerSparseTest, AdamIsLazy) {
  auto net = std::make_shared<Table>();
  FlatParameters flat(net, {});
  auto gradients = flat.make_gradients(allocate_on_cpu);
  Optimizer optimizer(flat, {AdamOptions{.lr = 0.1}});
  at::Tensor row = net->rows->weight.detach()[2].to(at::kDouble).clone();
  at::Tensor first = at::zeros({3}, at::kDouble), second = at::zeros({3}, at::kDouble);
  for (int step = 1; step <= 3; ++step) {
    const bool used = step != 2;
    flat.bind(gradients);
    net->loss(used ? at::tensor({2, 4}, at::kLong) : at::tensor({4}, at::kLong)).backward();
    flat.collect();
    optimizer.step(gradients, 1, 1);
    if (!used) continue;
    const at::Tensor gradient = 2 * row;
    first += (gradient - first) * 0.1;
    second += (gradient.square() - second) * 0.001;
    const double size = 0.1 * std::sqrt(1 - std::pow(0.999, step)) / (1 - std::pow(0.9, step));
    row -= size * first / (second.sqrt() + 1e-8);
  }
  EXPECT_TRUE(net->rows->weight[2].to(at::kDouble).allclose(row, 1e-5, 1e-6));
  const auto state = optimizer.state();
  EXPECT_EQ(state.back().first, "step.f32.sparse");
  EXPECT_EQ(state.back().second.item<std::int64_t>(), 3);
}

TEST(OptimizerSparseTest, RulesThatCannotTakeThemNameTheParameter) {
  FlatParameters flat(std::make_shared<Table>(), {});
  for (const OptimizerOptions& options :
       {OptimizerOptions(RmspropOptions{}), OptimizerOptions(SgdOptions{.momentum = 0.9}),
        OptimizerOptions(AdamOptions{.weight_decay = 0.1})}) {
    try {
      Optimizer optimizer(flat, {options});
      FAIL() << "accepted rule " << options.index();
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("rows.weight"));
    }
  }
}

}  // namespace
}  // namespace tandem::model
