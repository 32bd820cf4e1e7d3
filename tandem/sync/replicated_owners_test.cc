// Strategies in which owners update their part have the bits of Replicated, and less state on each replica.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <atomic>
#include <numeric>

#include "tandem/base/error.h"
#include "tandem/sync/replicated.h"
#include "tandem/sync/testing/strategy_world.h"

namespace tandem::sync {
namespace {

using ::testing::HasSubstr;

enum class Table { kNone, kSparse };

// Two flat buffers, one of float64, and perhaps a sparse one. Parameters that are longer than a call of the optimizer,
// and parameters that some steps leave out.
struct OwnedNet : torch::nn::Module {
  OwnedNet(torch::ScalarType dtype, Table kind) {
    trunk = register_module("trunk", torch::nn::Linear(7, 33));
    wide = register_module("wide", torch::nn::Linear(33, 65));
    left = register_module("left", torch::nn::Linear(65, 3));
    right = register_module("right", torch::nn::Linear(65, 3));
    long_one = register_parameter("long_one", torch::ones({140'001}));
    to(dtype);
    offset = register_parameter("offset", torch::zeros({100}, torch::kDouble));
    if (kind == Table::kSparse) {
      table = register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(9, 7).sparse(true)));
      table->to(dtype);
    }
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : parameters())
      parameter.copy_(torch::sin(torch::arange(parameter.numel())).mul(0.3).view_as(parameter));
  }

  // Every third step leaves the right head out, the fifth one the left head; rows of the table differ by shard.
  torch::Tensor loss(int step, int shard) {
    const auto dtype = trunk->weight.scalar_type();
    torch::Tensor x = torch::arange(28, torch::kFloat).view({4, 7}).add(3 * step + shard).sin().to(dtype);
    if (table) x = x + table(torch::tensor({shard, step, shard + 1, 8}, torch::kLong));
    const torch::Tensor hidden = torch::tanh(wide(torch::tanh(trunk(x))));
    torch::Tensor loss = hidden.square().sum();
    if (step % 3 != 2) loss = loss + right(hidden).sum() * (shard + 1);
    if (step != 4) loss = loss + left(hidden).square().mean();
    if (step != 1) loss = loss + (long_one * long_one.detach().cos()).sum() * 1e-3;
    return loss + (offset * (shard - 1.5)).sin().sum().to(dtype);
  }

  torch::nn::Linear trunk{nullptr}, wide{nullptr}, left{nullptr}, right{nullptr};
  torch::nn::Embedding table{nullptr};
  torch::Tensor long_one, offset;
};

void train_owned(Replica& replica, Strategy& strategy, int first, int last) {
  auto& net = dynamic_cast<OwnedNet&>(replica.module());
  for (int step = first; step < last; ++step) {
    for (int shard = replica.placement().mine.begin; shard < replica.placement().mine.end; ++shard) {
      strategy.open(shard);
      (net.loss(step, shard) * (shard + 1.0)).backward();
      strategy.close(shard + 1.0, 0.0);
    }
    if (step == 4) replica.optimizer().set_learning_rate(replica.optimizer().learning_rate() * 0.7);
    strategy.step(step < 3 ? 1.0 : 0.5, kNoLimits);
  }
}

constexpr int kStepsOfOwners = 6;

struct Case {
  const char* name;
  std::vector<model::OptimizerOptions> optimizer;
  MeanOptions mean{};
  torch::ScalarType dtype = torch::kFloat;
  Table table = Table::kNone;
  std::vector<model::ParameterGroup> groups{};
};

std::vector<Case> cases() {
  using Decay = model::AdamOptions::Decay;
  const std::vector<model::ParameterGroup> groups{{"body", {}}, {"heads", {"left", "right"}}};
  const model::OptimizerOptions adam = model::AdamOptions{.lr = 3e-3};
  return {
      {.name = "adam_clipped", .optimizer = {adam}, .mean = {.max_grad_norm = 0.5}},
      {.name = "adamw_in_groups",
       .optimizer = {model::AdamOptions{.lr = 3e-3, .weight_decay = 0.1, .decay = Decay::kDecoupled},
                     model::AdamOptions{.lr = 1e-2, .beta1 = 0.8}},
       .groups = groups},
      {.name = "sgd_momentum", .optimizer = {model::SgdOptions{.lr = 1e-2, .momentum = 0.9, .dampening = 0.1}}},
      {.name = "sgd_plain", .optimizer = {model::SgdOptions{.lr = 1e-2, .weight_decay = 0.01}}},
      {.name = "rmsprop", .optimizer = {model::RmspropOptions{.lr = 1e-3, .weight_decay = 0.05, .momentum = 0.7}}},
      {.name = "present_divisor", .optimizer = {adam}, .mean = {.max_grad_norm = {}, .divisor = Divisor::kPresent}},
      {.name = "float64", .optimizer = {adam}, .mean = {.max_grad_norm = 0.5}, .dtype = torch::kDouble},
      {.name = "bfloat16", .optimizer = {adam}, .mean = {.max_grad_norm = 0.5}, .dtype = torch::kBFloat16},
      {.name = "bfloat16_rmsprop", .optimizer = {model::RmspropOptions{.lr = 1e-2}}, .dtype = torch::kBFloat16},
      {.name = "sparse_table", .optimizer = {adam}, .mean = {.max_grad_norm = 0.5}, .table = Table::kSparse},
  };
}

std::vector<StrategyOptions> strategies() {
  return {ReplicatedOptions{}, DividedOptions{}, ParameterServerOptions{},
          ParameterServerOptions{.mean = {}, .servers = Servers::kFirst}};
}

StrategyWorld world_of(const Case& it, const StrategyOptions& strategy, int replicas) {
  return {.replicas = replicas,
          .strategy = with_mean(strategy, it.mean),
          .optimizer = it.optimizer,
          .flat = {.groups = it.groups},
          .build = [&it] { return std::make_shared<OwnedNet>(it.dtype, it.table); }};
}

class OwnerUpdatesLawTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  const Case case_ = cases()[GetParam()];
};

TEST_P(OwnerUpdatesLawTest, EveryStrategyHasTheSameStateOnAnyNumberOfReplicas) {
  const auto work = [](Replica& replica, Strategy& strategy) { train_owned(replica, strategy, 0, kStepsOfOwners); };
  std::string expected = model::state_sha256(state_after(world_of(case_, ReplicatedOptions{}, 1), work));
  for (const int replicas : {1, 2, 3, 4}) {
    // A replica rounds its own sum of bfloat16 once a shard, so that depends on the number of replicas.
    if (case_.dtype == torch::kBFloat16)
      expected = model::state_sha256(state_after(world_of(case_, ReplicatedOptions{}, replicas), work));
    for (const StrategyOptions& strategy : strategies()) {
      EXPECT_EQ(model::state_sha256(state_after(world_of(case_, strategy, replicas), work)), expected)
          << "strategy " << strategy.index() << ", replicas " << replicas;
    }
  }
}

// As variables in the host's memory are, of replicas that compute elsewhere; here the copy lies on the same device.
TEST_P(OwnerUpdatesLawTest, WhatIsUpdatedInACopyHasTheSameStateAndGoesOnFromACheckpoint) {
  const auto whole = [](Replica& replica, Strategy& of) { train_owned(replica, of, 0, kStepsOfOwners); };
  const auto start = [](Replica& replica, Strategy& of) { train_owned(replica, of, 0, 4); };
  for (const StrategyOptions& strategy : strategies()) {
    if (std::holds_alternative<ReplicatedOptions>(strategy)) continue;
    const StrategyWorld in_place = world_of(case_, strategy, 2);
    StrategyWorld copied = in_place;
    copied.before_begin = [](Replica& replica) { replica.optimizer().keep_at(torch::kCPU); };
    const model::NamedTensors saved = state_after(copied, start);
    const auto rest = [&saved](Replica& replica, Strategy& of) {
      of.load_whole_state(saved);
      train_owned(replica, of, 4, kStepsOfOwners);
    };
    EXPECT_EQ(model::state_sha256(state_after(copied, rest)), model::state_sha256(state_after(in_place, whole)))
        << "strategy " << strategy.index();
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, OwnerUpdatesLawTest, ::testing::Range<std::size_t>(0, 10),
                         [](const auto& chosen) { return std::string(cases()[chosen.param].name); });

// Replica 0 leaves after one step and replica 2 after three; what they own is still updated.
TEST(OwnerUpdatesTest, WhoLeavesGoesOnUpdatingWhatItOwns) {
  const Case adam = cases().front();
  const auto work = [](Replica& replica, Strategy& strategy) {
    const int steps = replica.placement().replica == 0 ? 1 : replica.placement().replica == 2 ? 3 : 4;
    train_owned(replica, strategy, 0, steps);
    strategy.leave(kNoLimits);
  };
  const std::string expected = model::state_sha256(state_after(world_of(adam, ReplicatedOptions{}, 4), work));
  for (const StrategyOptions& strategy : strategies())
    EXPECT_EQ(model::state_sha256(state_after(world_of(adam, strategy, 4), work)), expected) << strategy.index();
}

TEST(OwnerUpdatesTest, StateOfOneStrategyGoesOnUnderAnotherOnOtherReplicas) {
  const Case adam = cases().front();
  const std::string expected =
      model::state_sha256(state_after(world_of(adam, ReplicatedOptions{}, 1), [](Replica& replica, Strategy& strategy) {
        train_owned(replica, strategy, 0, kStepsOfOwners);
      }));
  for (const StrategyOptions& before : strategies()) {
    const model::NamedTensors saved = state_after(
        world_of(adam, before, 3), [](Replica& replica, Strategy& strategy) { train_owned(replica, strategy, 0, 4); });
    for (const StrategyOptions& after : strategies()) {
      const auto go_on = [&saved](Replica& replica, Strategy& strategy) {
        strategy.load_whole_state(saved);
        train_owned(replica, strategy, 4, kStepsOfOwners);
      };
      EXPECT_EQ(model::state_sha256(state_after(world_of(adam, after, 2), go_on)), expected)
          << before.index() << " to " << after.index();
    }
  }
}

TEST(OwnerUpdatesTest, BeginningAgainBetweenStepsChangesNothing) {
  const Case adam = cases().front();
  for (const StrategyOptions& options : strategies()) {
    std::vector<std::string> states;
    for (const int again : {0, 1}) {
      const auto work = [again](Replica& replica, Strategy& strategy) {
        train_owned(replica, strategy, 0, 3);
        for (int i = 0; i < again; ++i) strategy.begin(kNoLimits);
        train_owned(replica, strategy, 3, kStepsOfOwners);
      };
      states.push_back(model::state_sha256(state_after(world_of(adam, options, 3), work)));
    }
    EXPECT_EQ(states[0], states[1]) << options.index();
  }
}

// A checkpoint of replica 0 would speak for the others, which hold something else.
TEST(OwnerUpdatesTest, StateOfReplicasThatHaveDriftedIsNotGivenUntilTheyBeginAgain) {
  const Case adam = cases().front();
  for (const StrategyOptions& options : strategies()) {
    (void)state_after(world_of(adam, options, 3), [](Replica& replica, Strategy& strategy) {
      train_owned(replica, strategy, 0, 3);
      const auto parameters = replica.module().named_parameters();
      if (replica.placement().replica == 1) {
        const torch::NoGradGuard no_grad;
        parameters[1].value().view({-1})[0].add_(1e-6);
      }
      std::string refusal;
      try {
        (void)strategy.whole_state(kNoLimits);
      } catch (const RunError& error) {
        refusal = error.what();
      }
      EXPECT_THAT(refusal, AllOf(HasSubstr(parameters[1].key()), HasSubstr("of replica 1 differs")));
      strategy.begin(kNoLimits);
    });
  }
}

// Elements of moments on each of four replicas.
std::vector<std::int64_t> kept_elements(const StrategyOptions& strategy) {
  static const Case adam = cases().front();
  std::vector<std::int64_t> kept(4);
  (void)state_after(world_of(adam, strategy, 4), [&kept](Replica& replica, Strategy& its) {
    train_owned(replica, its, 0, 1);
    for (const model::PartialMoment& moment : replica.optimizer().partial_moments())
      kept[static_cast<std::size_t>(replica.placement().replica)] += moment.kept.numel();
  });
  return kept;
}

TEST(OwnerUpdatesTest, AReplicaKeepsStateForItsPartAlone) {
  const OwnedNet net(torch::kFloat, Table::kNone);
  std::int64_t whole = 0;
  for (const torch::Tensor& parameter : net.parameters()) whole += 2 * parameter.numel();
  const std::vector<std::int64_t> divided = kept_elements(DividedOptions{});
  for (const std::int64_t elements : divided) EXPECT_NEAR(static_cast<double>(elements), whole / 4.0, 1000);
  // The long parameter weighs more than all others, which therefore lie on replicas 1 to 3.
  const std::vector<std::int64_t> served = kept_elements(ParameterServerOptions{});
  EXPECT_NEAR(static_cast<double>(served[0]), 2 * 140'001.0, 100);
  for (const std::size_t other : {1, 2, 3}) EXPECT_GT(served[other], 0);
  const std::vector<std::int64_t> first = kept_elements(ParameterServerOptions{.mean = {}, .servers = Servers::kFirst});
  EXPECT_GE(first[0], whole);
  EXPECT_EQ(std::accumulate(first.begin() + 1, first.end(), std::int64_t{0}), 0);
}

TEST(OwnerUpdatesTest, AStateOfAnotherModelIsRefusedAndChangesNothing) {
  const Case adam = cases().front();
  const auto nothing = [](Replica&, Strategy&) {};
  const model::NamedTensors other = state_after(world_of(cases()[9], DividedOptions{}, 1), nothing);
  std::atomic<int> refused = 0;
  const auto load = [&](Replica& replica, Strategy& strategy) {
    train_owned(replica, strategy, 0, 2);
    try {
      strategy.load_whole_state(other);
    } catch (const CheckpointError& error) {
      EXPECT_THAT(error.what(), HasSubstr("'optimizer.exp_avg.f32.sparse'"));
      ++refused;
    }
    train_owned(replica, strategy, 2, kStepsOfOwners);
  };
  const std::string expected =
      model::state_sha256(state_after(world_of(adam, ReplicatedOptions{}, 1), [](Replica& replica, Strategy& strategy) {
        train_owned(replica, strategy, 0, kStepsOfOwners);
      }));
  EXPECT_EQ(model::state_sha256(state_after(world_of(adam, DividedOptions{}, 2), load)), expected);
  EXPECT_EQ(refused, 2);
}

}  // namespace
}  // namespace tandem::sync
