#include "tandem/sync/local/local_steps_strategy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <array>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/comm/testing/layers_of_groups.h"
#include "tandem/comm/testing/member_threads.h"
#include "tandem/model/state_hash.h"
#include "tandem/sync/testing/strategy_world.h"

namespace tandem::sync {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Twin : torch::nn::Module {
  Twin() {
    first = register_module("first", torch::nn::Linear(3, 40));
    second = register_module("second", torch::nn::Linear(40, 1));
    const torch::NoGradGuard no_grad;
    float next = 0.1F;
    for (torch::Tensor& parameter : parameters())
      parameter.copy_(torch::sin(torch::arange(parameter.numel(), torch::kFloat) + (next += 1)).view_as(parameter) *
                      0.3F);
  }
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::tanh(first(x))); }
  torch::nn::Linear first{nullptr}, second{nullptr};
};

// Uneven: replica r has r + 1 rows in each step.
double rows_of(int replica) { return replica + 1; }

torch::Tensor loss_of(Twin& net, int replica, int step) {
  const torch::Tensor x =
      torch::sin(torch::arange(3 * (replica + 1), torch::kFloat).view({-1, 3}) + static_cast<float>(step));
  return (net.forward(x) - static_cast<float>(replica) * 0.1F).square().mean();
}

void make_steps(Replica& replica, Strategy& strategy, int begin, int end) {
  auto& net = dynamic_cast<Twin&>(replica.module());
  const int me = replica.placement().replica;
  for (int step = begin; step < end; ++step) {
    strategy.open(me);
    (loss_of(net, me, step) * rows_of(me)).backward();
    strategy.close(rows_of(me), 0.0);
    EXPECT_EQ(strategy.step(1.0, kNoLimits).weight, rows_of(me));
  }
}

StrategyWorld world_of(int replicas, const LocalStepsOptions& options) {
  return {.shards = replicas,
          .replicas = replicas,
          .strategy = options,
          .optimizer = {model::SgdOptions{.lr = 0.1, .momentum = 0.5}},
          .build = [] { return std::make_shared<Twin>(); }};
}

// Plain LibTorch: the replicas' models one after the other, each with its own optimizer, and an outer optimizer that is
// given the mean way as its gradient.
std::vector<torch::Tensor> reference(int replicas, int steps, int every,
                                     const torch::optim::SGDOptions& outer_options) {
  Twin agreed;
  torch::optim::SGD outer(agreed.parameters(), outer_options);
  std::vector<std::shared_ptr<Twin>> nets;
  std::vector<torch::optim::SGD> optimizers;
  double all_rows = 0;
  for (int r = 0; r < replicas; ++r) {
    nets.push_back(std::make_shared<Twin>());
    optimizers.emplace_back(nets.back()->parameters(), torch::optim::SGDOptions(0.1).momentum(0.5));
    all_rows += rows_of(r);
  }
  for (int step = 0; step < steps; ++step) {
    for (std::size_t r = 0; r < nets.size(); ++r) {
      optimizers[r].zero_grad();
      loss_of(*nets[r], static_cast<int>(r), step).backward();
      optimizers[r].step();
    }
    if ((step + 1) % every != 0 && step + 1 != steps) continue;
    const torch::NoGradGuard no_grad;
    auto to = agreed.parameters();
    for (std::size_t p = 0; p < to.size(); ++p) {
      to[p].mutable_grad() = torch::zeros_like(to[p]);
      for (std::size_t r = 0; r < nets.size(); ++r)
        to[p].mutable_grad() += (to[p] - nets[r]->parameters()[p]) * (rows_of(static_cast<int>(r)) / all_rows);
    }
    outer.step();
    for (const auto& net : nets) {
      auto mine = net->parameters();
      for (std::size_t p = 0; p < to.size(); ++p) mine[p].copy_(to[p]);
    }
  }
  return agreed.parameters();
}

void expect_near(const model::NamedTensors& state, const std::vector<torch::Tensor>& expected, double most) {
  for (std::size_t p = 0; p < expected.size(); ++p) {
    EXPECT_THAT(state[p].first, HasSubstr("parameters."));
    EXPECT_LE((state[p].second - expected[p]).abs().max().item<double>(), most) << state[p].first;
  }
}

TEST(LocalStepsStrategyTest, AnAverageIsThatOfThePlainLoop) {
  for (const int replicas : {1, 2, 3}) {
    const auto state = state_after(world_of(replicas, {.every = 3}),
                                   [](Replica& replica, Strategy& strategy) { make_steps(replica, strategy, 0, 7); });
    expect_near(state, reference(replicas, 7, 3, torch::optim::SGDOptions(1)), 1e-6);
  }
}

TEST(LocalStepsStrategyTest, TheOuterOptimizerIsTorchs) {
  for (const int replicas : {1, 2, 3}) {
    const auto state =
        state_after(world_of(replicas, {.every = 2, .outer = Outer::kNesterov, .outer_lr = 0.7, .outer_momentum = 0.9}),
                    [](Replica& replica, Strategy& strategy) { make_steps(replica, strategy, 0, 8); });
    expect_near(state, reference(replicas, 8, 2, torch::optim::SGDOptions(0.7).momentum(0.9).nesterov(true)), 1e-6);
  }
}

TEST(LocalStepsStrategyTest, OneReplicaThatAveragesHasTheBitsOfReplicated) {
  const auto work = [](Replica& replica, Strategy& strategy) { make_steps(replica, strategy, 0, 5); };
  StrategyWorld world = world_of(1, {.every = 2});
  const std::string local = model::state_sha256(state_after(world, work));
  world.strategy = ReplicatedOptions{};
  EXPECT_EQ(local, model::state_sha256(state_after(world, work)));
}

// Four replicas as four threads, in two processes, three and four: one run.
TEST(LocalStepsStrategyTest, SameBitsOnAnyTopology) {
  const std::vector<LocalStepsOptions> all{
      {.every = 3},
      {.every = 4, .outer = Outer::kNesterov, .fragments = 2},
      {.every = 4, .outer = Outer::kNesterov, .fragments = 2, .overlap = 1},
      {.every = 3, .fragments = 3, .wire = Wire::kInt8},
      {.every = 3, .outer = Outer::kNesterov, .wire = Wire::kInt4},
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto run = [&](comm::Groups groups) {
      std::vector<std::string> hashes(groups.size());
      const auto outcomes = comm::run_all(std::move(groups), [&](comm::Group& group) {
        const auto me = static_cast<std::size_t>(group.rank());
        Replica replica(place_on_cpu(4, 4)[me], std::make_shared<Twin>(), 1, {model::AdamOptions{}});
        LocalStepsStrategy strategy(replica, group, all[i]);
        strategy.begin(kNoLimits);
        make_steps(replica, strategy, 0, 10);
        (void)strategy.whole_state(kNoLimits);
        hashes[me] = model::state_sha256(replica.named_state());
      });
      for (const std::string& outcome : outcomes) EXPECT_EQ(outcome, "");
      return hashes;
    };
    const std::vector<std::string> expected = run(comm::make_local_group(4));
    EXPECT_THAT(expected, ::testing::Each(expected.front())) << i;
    EXPECT_EQ(run(comm::layered({2, 2})), expected) << i;
    EXPECT_EQ(run(comm::layered({1, 1, 2})), expected) << i;
    EXPECT_EQ(run(comm::layered({1, 1, 1, 1})), expected) << i;
  }
}

// Which elements of the flat parameters are equal on both replicas, after each step.
std::vector<std::int64_t> equal_after_steps(const LocalStepsOptions& options, int steps) {
  std::vector<std::vector<torch::Tensor>> values(2);
  (void)state_after(world_of(2, options), [&](Replica& replica, Strategy& strategy) {
    for (int step = 0; step < steps; ++step) {
      make_steps(replica, strategy, step, step + 1);
      values[static_cast<std::size_t>(replica.placement().replica)].push_back(
          replica.parameters().buffers()[0].values.clone());
    }
  });
  std::vector<std::int64_t> equal;
  for (std::size_t s = 0; s < values[0].size(); ++s) {
    const torch::Tensor gaps = values[0][s].eq(0);
    equal.push_back((values[0][s].eq(values[1][s]).logical_and(gaps.logical_not())).sum().item<std::int64_t>());
  }
  return equal;
}

// 201 parameters, in halves of the flat memory: all but the other half's.
TEST(LocalStepsStrategyTest, FragmentsTakeTurns) {
  EXPECT_THAT(equal_after_steps({.every = 2}, 4), ElementsAre(0, 201, 0, 201));
  const std::vector<std::int64_t> halves = equal_after_steps({.every = 4, .fragments = 2}, 8);
  EXPECT_THAT(halves, ElementsAre(0, halves[1], 0, 201 - halves[1], 0, halves[1], 0, 201 - halves[1]));
  EXPECT_GT(halves[1], 60);
  EXPECT_LT(halves[1], 140);
}

// An exchange that was begun after step 2 takes effect after step 3, and keeps what that step did: by hand.
TEST(LocalStepsStrategyTest, WhatIsDoneWhileAnExchangeTravelsIsKept) {
  std::vector<std::array<torch::Tensor, 3>> flat(2);  // after steps 2 and 3 as made without exchanges; and with
  for (const std::int64_t every : {100, 2}) {
    (void)state_after(world_of(2, {.every = every, .overlap = 1}), [&](Replica& replica, Strategy& strategy) {
      auto& mine = flat[static_cast<std::size_t>(replica.placement().replica)];
      const auto values = [&] { return replica.parameters().buffers()[0].values.clone(); };
      make_steps(replica, strategy, 0, 2);
      if (every == 100) mine[0] = values();
      make_steps(replica, strategy, 2, 3);
      mine[every == 100 ? 1 : 2] = values();
    });
  }
  const torch::Tensor mean = flat[0][0] * (1.0 / 3) + flat[1][0] * (2.0 / 3);
  for (const auto& [at_start, without, with] : flat)
    EXPECT_LE((with - (mean + without - at_start)).abs().max().item<double>(), 1e-6);
}

// A tenth of the steps' size is less than what 4 bits can say beside an element that is a hundred times as large.
TEST(LocalStepsStrategyTest, WhatIsRoundedOffTravelsLater) {
  const auto moved = [](const LocalStepsOptions& options) {
    return state_after(world_of(2, options), [](Replica& replica, Strategy& strategy) {
      const int me = replica.placement().replica;
      torch::Tensor values = replica.parameters().buffers()[0].values;
      for (int step = 0; step < 40; ++step) {
        {  // a way that does not depend on the parameters: 1 for the first element, 0.01 for all others
          const torch::NoGradGuard no_grad;
          values.add_(0.01).narrow(0, 0, 1).add_(0.99);
        }
        strategy.open(me);
        strategy.close(rows_of(me), 0.0);
        (void)strategy.step(1.0, kNoLimits);
      }
      // Not agree(), which exchanges in full.
      const torch::Tensor way =
          values.narrow(0, 1, 100) - std::make_shared<Twin>()->parameters()[0].view(-1).narrow(0, 1, 100);
      EXPECT_NEAR(way.mean().item<double>(), 0.4, 0.08);
    });
  };
  (void)moved({.every = 1, .wire = Wire::kInt4});
  (void)moved({.every = 1, .wire = Wire::kInt8});
}

TEST(LocalStepsStrategyTest, AReplicaThatLeavesEarlyTakesPartInTheOthersExchanges) {
  std::vector<std::int64_t> agreements(3);
  const auto outcomes = comm::run_all(comm::make_local_group(3), [&](comm::Group& group) {
    const auto me = static_cast<std::size_t>(group.rank());
    Replica replica(place_on_cpu(3, 3)[me], std::make_shared<Twin>(), 1, {model::SgdOptions{.lr = 0.1}});
    LocalStepsStrategy strategy(replica, group, {.every = 4, .fragments = 2});
    strategy.begin(kNoLimits);
    make_steps(replica, strategy, 0, 3 + 5 * static_cast<int>(me));
    if (me == 1) (void)strategy.agree(within(std::chrono::seconds(60)));
    strategy.leave(within(std::chrono::seconds(60)));
    agreements[me] = replica.parameters().buffers()[0].values.sum().item<std::int64_t>();
    require_same_state(replica, group, "", within(std::chrono::seconds(60)));
  });
  for (const std::string& outcome : outcomes) EXPECT_EQ(outcome, "");
}

struct NormThenLinear : torch::nn::Module {
  NormThenLinear() {
    norm = register_module("norm", torch::nn::BatchNorm1d(2));
    used = register_module("used", torch::nn::Linear(2, 1));
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : parameters()) parameter.fill_(0.5);
  }
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear used{nullptr};
};

// Running means by rows (1 and 3), counts of replica 0, moments by rows, step counts of the one that has most.
TEST(LocalStepsStrategyTest, AnAgreementIsOfBuffersAndMomentsToo) {
  std::vector<std::map<std::string, torch::Tensor>> before(2);
  StrategyWorld world{.shards = 2,
                      .replicas = 2,
                      .strategy = LocalStepsOptions{.every = 10},
                      .optimizer = {model::AdamOptions{}},
                      .build = [] { return std::make_shared<NormThenLinear>(); }};
  const auto state = state_after(world, [&](Replica& replica, Strategy& strategy) {
    const int me = replica.placement().replica;
    auto& net = dynamic_cast<NormThenLinear&>(replica.module());
    for (int step = 0; step < 2 - me; ++step) {
      strategy.open(me);
      const torch::Tensor x = torch::arange(8, torch::kFloat).view({4, 2}) * static_cast<float>(me + 1);
      (net.used(net.norm(x)).square().mean() * (me == 0 ? 1.0 : 3.0)).backward();
      strategy.close(me == 0 ? 0.5 : 3.0, 0.0);
      (void)strategy.step(1.0, kNoLimits);
    }
    for (const auto& [name, tensor] : replica.named_state())
      before[static_cast<std::size_t>(me)][name] = tensor.clone();
  });
  for (const auto& [name, tensor] : state) {
    const torch::Tensor first = before[0].at(name), second = before[1].at(name);
    const torch::Tensor expected = tensor.is_floating_point()       ? first * 0.25 + second * 0.75
                                   : name.starts_with("optimizer.") ? torch::maximum(first, second)
                                                                    : first;
    EXPECT_LE((tensor - expected).abs().max().item<double>(), 1e-6) << name;
  }
  EXPECT_EQ(before[0].at("buffers.norm.num_batches_tracked").item<int>(), 2);
}

// agree() leaves moments alone; settle() makes them means even where no step was made since.
TEST(LocalStepsStrategyTest, AReplicasMomentsAreItsOwnUntilAllSettle) {
  StrategyWorld world = world_of(2, {.every = 3});
  std::vector<std::map<std::string, std::string>> hashes(2);
  (void)state_after(world, [&](Replica& replica, Strategy& strategy) {
    auto& mine = hashes[static_cast<std::size_t>(replica.placement().replica)];
    const auto note = [&](const std::string& when) {
      mine[when + " moments"] = model::state_sha256(replica.optimizer().state());
      mine[when + " parameters"] = model::bytes_sha256(model::named_parameters_of(replica.module()));
    };
    make_steps(replica, strategy, 0, 5);
    note("before");
    strategy.agree(kNoLimits);
    note("agreed");
    strategy.settle(kNoLimits);
    note("settled");
  });
  EXPECT_NE(hashes[0].at("before parameters"), hashes[1].at("before parameters"));
  EXPECT_EQ(hashes[0].at("agreed parameters"), hashes[1].at("agreed parameters"));
  EXPECT_NE(hashes[0].at("agreed moments"), hashes[1].at("agreed moments"));
  EXPECT_EQ(hashes[0].at("settled moments"), hashes[1].at("settled moments"));
  EXPECT_EQ(hashes[0].at("settled parameters"), hashes[0].at("agreed parameters"));
}

// A state is loaded also while an exchange travels, which then changes nothing.
TEST(LocalStepsStrategyTest, AStateGoesOnWithTheSameBits) {
  const LocalStepsOptions rounded{.every = 3, .outer = Outer::kNesterov, .fragments = 3, .wire = Wire::kInt8};
  for (const LocalStepsOptions& options : {rounded, {.every = 2, .outer = Outer::kNesterov, .overlap = 1}}) {
    model::NamedTensors half;
    const auto whole = state_after(world_of(2, options), [&](Replica& replica, Strategy& strategy) {
      make_steps(replica, strategy, 0, 4);
      for (const auto& [name, tensor] : strategy.whole_state(kNoLimits))
        if (replica.placement().replica == 0) half.emplace_back(name, tensor.clone());
      make_steps(replica, strategy, 4, 9);
    });
    EXPECT_THAT(half.back().first, HasSubstr("outer.momentum.0"));
    EXPECT_GT(half.back().second.abs().max().item<double>(), 0);
    const auto resumed = state_after(world_of(2, options), [&](Replica& replica, Strategy& strategy) {
      make_steps(replica, strategy, 0, 2);
      strategy.load_whole_state(half);
      make_steps(replica, strategy, 4, 9);
    });
    EXPECT_EQ(model::state_sha256(resumed), model::state_sha256(whole));
  }
}

TEST(LocalStepsStrategyTest, AParameterThatIsNotFiniteIsNamedBeforeItIsGivenAway) {
  const auto outcomes = comm::run_as_members(2, [&](comm::Group& group) {
    const auto me = static_cast<std::size_t>(group.rank());
    Replica replica(place_on_cpu(2, 2)[me], std::make_shared<Twin>(), 1, {model::SgdOptions{.lr = 0.1}});
    LocalExchange exchange(replica, group, {.every = 1});
    if (me == 1) {
      const torch::NoGradGuard no_grad;
      replica.module().named_parameters()["second.weight"].view({-1})[3] = INFINITY;
    }
    exchange.count_step(1);
    exchange.exchange_due(within(std::chrono::seconds(60)));
  });
  EXPECT_THAT(outcomes[1], HasSubstr("parameter 'second.weight' of replica 1 is not finite after its own steps (inf)"));
  EXPECT_THAT(outcomes[0], HasSubstr("second.weight"));
}

// Its sums are those of the exchange before, and nothing is done with them again.
TEST(LocalStepsStrategyTest, AnExchangeWithoutRowsChangesNothing) {
  for (const Wire wire : {Wire::kFull, Wire::kInt8}) {
    const auto outcomes = comm::run_as_members(2, [&](comm::Group& group) {
      Replica replica(place_on_cpu(2, 2)[static_cast<std::size_t>(group.rank())], std::make_shared<Twin>(), 1,
                      {model::SgdOptions{.lr = 0.1}});
      LocalExchange exchange(replica, group, {.every = 1, .wire = wire});
      const torch::Tensor values = replica.parameters().buffers()[0].values.add_(1);
      exchange.count_step(1);
      exchange.exchange_due(within(std::chrono::seconds(60)));
      const torch::Tensor before = values.clone();
      exchange.count_step(0);
      exchange.exchange_due(within(std::chrono::seconds(60)));
      EXPECT_TRUE(torch::equal(values, before)) << static_cast<int>(wire);
    });
    for (const std::string& outcome : outcomes) EXPECT_EQ(outcome, "");
  }
}

TEST(LocalStepsStrategyTest, FaultsOfOptionsAreToldTogether) {
  const auto said = [](const LocalStepsOptions& options) {
    std::string text;
    for (const StrategyFault& fault : faults_of(options)) text += fault.option + " " + fault.problem + "\n";
    return text;
  };
  EXPECT_EQ(said({}), "");
  EXPECT_EQ(said({.every = 50, .fragments = 4, .overlap = 11}), "");
  EXPECT_THAT(said({.every = 0, .outer_lr = 0, .outer_momentum = 1}),
              AllOf(HasSubstr("every is 0 steps"), HasSubstr("outer_lr is 0"), HasSubstr("outer_momentum is 1")));
  EXPECT_THAT(said({.every = 50, .fragments = 4, .overlap = 12}),
              HasSubstr("overlap is 12 steps, and the next exchange begins after 12"));
  EXPECT_THAT(said({.every = 4, .fragments = 5}), HasSubstr("give at most 4"));
  EXPECT_THAT(said({.overlap = 1, .wire = Wire::kInt4}), HasSubstr("overlap is for wire: full"));
}

}  // namespace
}  // namespace tandem::sync
