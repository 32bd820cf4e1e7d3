#include "tandem/model/files/torch_optimizer.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <limits>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

// Two layers, each a parameter group, that have made a step with gradients of 1.
struct TwoGroups {
  explicit TwoGroups(const std::vector<OptimizerOptions>& rules)
      : net(torch::nn::Linear(2, 2), torch::nn::Linear(2, 1)),
        flat(net.ptr(), {.groups = {{"first", {"0"}}, {"second", {"1"}}}}),
        gradients(
            flat.make_gradients([](std::int64_t count, at::ScalarType dtype) { return at::zeros({count}, dtype); })),
        optimizer(flat, rules) {
    step();
  }
  void step() {
    flat.bind(gradients);
    for (at::Tensor& parameter : net->parameters()) parameter.mutable_grad().fill_(1);
    flat.collect();
    optimizer.step(gradients, 1, 1);
  }
  [[nodiscard]] at::IValue state() const { return torch_state_of(optimizer, flat); }

  torch::nn::Sequential net;
  FlatParameters flat;
  FlatParameters::Gradients gradients;
  Optimizer optimizer;
};

// An option of the second parameter group.
void set(const at::IValue& state, const char* option, const at::IValue& value) {
  state.toGenericDict().at("param_groups").toList().get(1).toGenericDict().insert_or_assign(option, value);
}

void expect_refusal(TwoGroups& into, const at::IValue& state, const std::string& words) {
  EXPECT_THAT([&] { load_torch_state(state, into.optimizer, into.flat); },
              ThrowsMessage<CheckpointError>(
                  AllOf(HasSubstr(words), HasSubstr("parameter group 1"), Not(HasSubstr("parameter group 0")))));
}

TEST(TorchOptimizerTest, OptionsThatTandemDoesNotHaveAreRefusedByName) {
  TwoGroups adam({AdamOptions{}}), rmsprop({RmspropOptions{}}), sgd({SgdOptions{.momentum = 0.9}});
  for (const char* option : {"amsgrad", "maximize"}) {
    const at::IValue state = adam.state();
    EXPECT_NO_THROW(load_torch_state(state, adam.optimizer, adam.flat)) << option << " as it was saved";
    set(state, option, true);
    expect_refusal(adam, state, concat(option, "=True, which Tandem's Adam does not have"));
  }
  const at::IValue centered = rmsprop.state();
  set(centered, "centered", true);
  expect_refusal(rmsprop, centered, "centered=True, which Tandem's RMSprop does not have");
  const at::IValue maximize = sgd.state();
  set(maximize, "maximize", true);
  expect_refusal(sgd, maximize, "maximize=True, which Tandem's SGD does not have");
}

TEST(TorchOptimizerTest, TheStateOfAnotherOptimizerIsRefused) {
  TwoGroups adam({AdamOptions{}}), sgd({SgdOptions{.momentum = 0.9}});
  const at::IValue nadam = adam.state();
  set(nadam, "momentum_decay", 4e-3);
  expect_refusal(adam, nadam, "'momentum_decay' of torch.optim.NAdam, and the optimizer is Adam");
  const at::IValue radam = adam.state();
  (void)radam.toGenericDict().at("param_groups").toList().get(1).toGenericDict().erase("amsgrad");
  expect_refusal(adam, radam, "no 'amsgrad', as that of torch.optim.RAdam or Adamax");
  const at::IValue before = sgd.state();
  EXPECT_THAT([&] { load_torch_state(adam.state(), sgd.optimizer, sgd.flat); },
              ThrowsMessage<CheckpointError>(HasSubstr("no 'nesterov', which the state of SGD has")));
  const at::Tensor momentum =
      before.toGenericDict().at("state").toGenericDict().at(0).toGenericDict().at("momentum_buffer").toTensor();
  EXPECT_TRUE(momentum.eq(1).all().item<bool>()) << "changed by what was refused";
}

// A group without momentum has none in the state, as in Python, and needs none there.
TEST(TorchOptimizerTest, GroupsWithAndWithoutMomentumComeBack) {
  const std::vector<std::vector<OptimizerOptions>> kinds{{SgdOptions{.momentum = 0.9}, SgdOptions{.lr = 0.2}},
                                                         {RmspropOptions{.momentum = 0.5}, RmspropOptions{}}};
  for (const std::vector<OptimizerOptions>& rules : kinds) {
    TwoGroups saved(rules), loaded(rules);
    const auto of = saved.state().toGenericDict().at("state").toGenericDict();
    EXPECT_TRUE(of.at(0).toGenericDict().contains("momentum_buffer"));
    EXPECT_FALSE(of.contains(2) && of.at(2).toGenericDict().contains("momentum_buffer")) << rules[0].index();
    loaded.step();
    loaded.flat.buffers()[0].values.copy_(saved.flat.buffers()[0].values);
    load_torch_state(saved.state(), loaded.optimizer, loaded.flat);
    saved.step();
    loaded.step();
    EXPECT_TRUE(saved.flat.buffers()[0].values.equal(loaded.flat.buffers()[0].values)) << rules[0].index();
  }
}

// A state comes from a file, where a number may be anything.
TEST(TorchOptimizerTest, WhatIsNoNumberIsRefusedAndNothingChanged) {
  TwoGroups adam({AdamOptions{}});
  const auto refuses = [&adam](const at::IValue& state) {
    EXPECT_THROW(load_torch_state(state, adam.optimizer, adam.flat), CheckpointError);
  };
  for (const at::IValue& number :
       {at::IValue("three"), at::IValue(1e300), at::IValue(-1.0), at::IValue(torch::ones({2})),
        at::IValue(std::numeric_limits<double>::quiet_NaN())}) {
    const at::IValue state = adam.state();
    state.toGenericDict().at("state").toGenericDict().at(0).toGenericDict().insert_or_assign("step", number);
    refuses(state);
  }
  const at::IValue keys = adam.state();
  c10::impl::GenericList lists(c10::AnyType::get());
  for (int i = 0; i < 2; ++i) lists.push_back(c10::impl::GenericList(c10::AnyType::get()));
  set(keys, "params", lists);
  EXPECT_NO_THROW(load_torch_state(keys, adam.optimizer, adam.flat)) << "parameters without a state";
  const at::IValue rate = adam.state();
  rate.toGenericDict().at("param_groups").toList().get(0).toGenericDict().insert_or_assign("lr", "fast");
  refuses(rate);
}

}  // namespace
}  // namespace tandem::model
