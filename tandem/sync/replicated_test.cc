#include "tandem/sync/replicated.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/model/state_hash.h"
#include "tandem/sync/testing/strategy_world.h"

namespace tandem::sync {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct TwoHeads : torch::nn::Module {
  explicit TwoHeads(std::int64_t width = 4) {
    trunk = register_module("trunk", torch::nn::Linear(3, width));
    left = register_module("left", torch::nn::Linear(width, 1));
    right = register_module("right", torch::nn::Linear(width, 1));
  }
  torch::nn::Linear trunk{nullptr}, left{nullptr}, right{nullptr};
};

torch::Tensor input(int shard) {
  return torch::arange(6, torch::kFloat).reshape({2, 3}) * 0.1F + static_cast<float>(shard);
}

// The loss of a shard: even shards use the left head, odd ones the right one.
torch::Tensor loss_of_shard(TwoHeads& net, int shard) {
  const torch::Tensor hidden = torch::tanh(net.trunk(input(shard)));
  return (shard % 2 == 0 ? net.left(hidden) : net.right(hidden)).square().mean();
}

std::shared_ptr<TwoHeads> same_net(int) {
  auto net = std::make_shared<TwoHeads>();
  torch::NoGradGuard no_grad;
  float next = 0.1F;
  for (torch::Tensor& parameter : net->parameters()) parameter.fill_(next += 0.07F);
  return net;
}

void train_step(Replica& replica, Replicated& strategy, StepReport& report) {
  auto& net = dynamic_cast<TwoHeads&>(replica.module());
  for (int shard = replica.placement().mine.begin; shard < replica.placement().mine.end; ++shard) {
    strategy.open(shard);
    (loss_of_shard(net, shard) * (shard + 1.0)).backward();
    strategy.close(shard + 1.0, 0.0);
  }
  report = strategy.step(1.0, kNoLimits);
}

TEST(ReplicatedTest, TheStepIsThatOfTheWeightedMeanOverAllShards) {
  const auto reference = same_net(0);
  torch::Tensor loss = torch::zeros({});
  for (int shard = 0; shard < 4; ++shard) loss = loss + loss_of_shard(*reference, shard) * (shard + 1.0);
  (loss / 10.0).backward();
  torch::optim::SGD sgd(reference->parameters(), torch::optim::SGDOptions(0.5));
  sgd.step();
  for (const int replicas : {1, 2, 4}) {
    const auto outcomes = run_world(
        4, replicas, {},
        [&](Replica& replica, Replicated& strategy) {
          StepReport report;
          train_step(replica, strategy, report);
          EXPECT_EQ(report.weight, 10);
          EXPECT_EQ(report.step, 1);
          const auto expected = reference->parameters(), got = replica.module().parameters();
          for (std::size_t i = 0; i < got.size(); ++i)
            EXPECT_TRUE(torch::allclose(got[i], expected[i], 1e-5, 1e-6)) << i;
        },
        same_net);
    for (const std::string& outcome : outcomes) EXPECT_EQ(outcome, "");
  }
}

// A-F2: the seed divided by the towers that have a gradient; both means are to be had.
TEST(ReplicatedTest, TheDivisorIsAllShardsOrThoseWithAGradient) {
  std::vector<torch::Tensor> moved;
  for (const Divisor divisor : {Divisor::kTotal, Divisor::kPresent}) {
    (void)run_world(
        2, 2, {.max_grad_norm = {}, .divisor = divisor},
        [&](Replica& replica, Replicated& strategy) {
          const torch::Tensor before = replica.module().named_parameters()["left.weight"].detach().clone();
          auto& net = dynamic_cast<TwoHeads&>(replica.module());
          strategy.open(replica.placement().replica);
          loss_of_shard(net, replica.placement().replica).backward();
          strategy.close(1, 0.0);
          strategy.step(1.0, kNoLimits);
          if (replica.placement().replica == 0)
            moved.push_back(replica.module().named_parameters()["left.weight"].detach() - before);
        },
        same_net);
  }
  EXPECT_TRUE(torch::allclose(moved[1], moved[0] * 2));
}

TEST(ReplicatedTest, ClippingBoundsTheNormOfTheMeanGradientAfterAveraging) {
  (void)run_world(
      2, 1, {.max_grad_norm = 1e-3, .divisor = {}},
      [&](Replica& replica, Replicated& strategy) {
        std::vector<torch::Tensor> before;
        for (const torch::Tensor& parameter : replica.module().parameters())
          before.push_back(parameter.detach().clone());
        StepReport report;
        train_step(replica, strategy, report);
        EXPECT_GT(report.grad_norm, 1e-3);
        double moved = 0;
        for (std::size_t i = 0; i < before.size(); ++i)
          moved += (replica.module().parameters()[i] - before[i]).square().sum().item<double>();
        EXPECT_NEAR(std::sqrt(moved), 0.5 * 1e-3, 1e-6);
      },
      same_net);
}

TEST(ReplicatedTest, AGradientThatIsNotFiniteIsNamedOnEveryReplicaAndNothingMoves) {
  std::vector<double> moved(2, -1);
  const auto outcomes = run_world(
      2, 2, {},
      [&](Replica& replica, Replicated& strategy) {
        auto& net = dynamic_cast<TwoHeads&>(replica.module());
        const int shard = replica.placement().replica;
        const torch::Tensor before = replica.parameters().buffers()[0].values.clone();
        strategy.open(shard);
        (loss_of_shard(net, shard) * (shard == 1 ? std::nan("") : 1.0)).backward();
        strategy.close(1, 0.0);
        try {
          strategy.step(1.0, kNoLimits);
        } catch (const RunError&) {
          moved[static_cast<std::size_t>(shard)] =
              (replica.parameters().buffers()[0].values - before).abs().max().item<double>();
          throw;
        }
      },
      same_net);
  for (const std::string& outcome : outcomes)
    EXPECT_THAT(outcome, AllOf(HasSubstr("'trunk.weight' [4, 3]"), HasSubstr("not finite"),
                               HasSubstr("The losses of all shards were finite;")));
  EXPECT_EQ(moved, (std::vector<double>{0, 0}));
}

// Its loss is finite, and so is all that the others give.
TEST(ReplicatedTest, TheReplicaWhoseGradientWasNotFiniteIsNamedWhereEachIsLookedAt) {
  for (const GradientCheck check : {GradientCheck::kEachReplica, GradientCheck::kSum}) {
    const auto outcomes = run_world(
        3, 3, {.check = check},
        [](Replica& replica, Replicated& strategy) {
          auto& net = dynamic_cast<TwoHeads&>(replica.module());
          const int shard = replica.placement().replica;
          strategy.open(shard);
          torch::Tensor loss = loss_of_shard(net, shard);
          if (shard == 1) loss = loss + torch::sqrt(net.trunk->weight.sum() * 0);  // its slope at 0 is infinite
          loss.backward();
          strategy.close(1, loss.item<double>());
          (void)strategy.step(1.0, kNoLimits);
        },
        same_net);
    EXPECT_THAT(
        outcomes,
        ::testing::Each(HasSubstr(check == GradientCheck::kSum
                                      ? "The losses of all shards were finite; GradientCheck::kEachReplica"
                                      : "The losses of all shards were finite. The gradient was not finite already on "
                                        "replica 1 ('trunk.weight'). The learning rate")));
  }
}

TEST(ReplicatedTest, TheReplicaAndShardWhoseLossWasNotFiniteAreNamed) {
  const auto outcomes = run_world(
      4, 2, {},
      [](Replica& replica, Replicated& strategy) {
        auto& net = dynamic_cast<TwoHeads&>(replica.module());
        const Range mine = replica.placement().mine;
        for (int shard = mine.begin; shard < mine.end; ++shard) {
          strategy.open(shard);
          const torch::Tensor loss = loss_of_shard(net, shard) * (shard == 3 ? std::nan("") : 1.0);
          loss.backward();
          strategy.close(1, loss.item<double>());
        }
        (void)strategy.step(1.0, kNoLimits);
      },
      same_net);
  EXPECT_THAT(outcomes,
              ::testing::Each(AllOf(HasSubstr("step 0: the loss was not finite on replica 1 (shard 3: nan), and"),
                                    ::testing::Not(HasSubstr("learning rate")))));
}

TEST(ReplicatedTest, DifferentModelsAreRefusedBeforeTheFirstStepNamingTheParameter) {
  const auto outcomes = run_world(
      2, 2, {}, [](Replica&, Replicated&) {}, [](int replica) { return std::make_shared<TwoHeads>(4 + replica); });
  EXPECT_THAT(outcomes[0] + outcomes[1], AllOf(HasSubstr("trunk.weight"), HasSubstr("[4, 3]"), HasSubstr("[5, 3]")));
}

TEST(ReplicatedTest, BeginGivesAllReplicasTheValuesOfTheFirst) {
  std::vector<torch::Tensor> values(3);
  const auto outcomes = run_world(
      3, 3, {},
      [&](Replica& replica, Replicated&) {
        values[static_cast<std::size_t>(replica.placement().replica)] =
            replica.parameters().buffers()[0].values.clone();
      },
      [](int) { return std::make_shared<TwoHeads>(); });
  EXPECT_TRUE(torch::equal(values[0], values[1]) && torch::equal(values[0], values[2]));
}

// The hash of the whole named state after two steps of Adam over four shards, which all replicas must have. In the
// first step `nudge` is added to one element of one shard's gradient.
std::string adam_state_sha256(int replicas, int shard_nudged, float nudge) {
  std::vector<std::string> hashes(static_cast<std::size_t>(replicas));
  (void)state_after({.shards = 4,
                     .replicas = replicas,
                     .strategy = {},
                     .optimizer = {model::AdamOptions{.lr = 0.01}},
                     .flat = {},
                     .build = [] { return same_net(0); }},
                    [&](Replica& replica, Strategy& strategy) {
                      auto& net = dynamic_cast<TwoHeads&>(replica.module());
                      const Range mine = replica.placement().mine;
                      for (int step = 0; step < 2; ++step) {
                        for (int shard = mine.begin; shard < mine.end; ++shard) {
                          strategy.open(shard);
                          loss_of_shard(net, shard).backward();
                          if (step == 0 && shard == shard_nudged) net.trunk->bias.mutable_grad()[2].add_(nudge);
                          strategy.close(1, 0.0);
                        }
                        (void)strategy.step(1.0, kNoLimits);
                      }
                      hashes[static_cast<std::size_t>(replica.placement().replica)] =
                          model::state_sha256(replica.named_state());
                    });
  EXPECT_THAT(hashes, ::testing::Each(hashes.front()));
  return hashes.front();
}

TEST(ReplicatedTest, AChangedGradientElementOnOneReplicaChangesTheResult) {
  const std::string unchanged = adam_state_sha256(2, 0, 0.0F);
  EXPECT_EQ(adam_state_sha256(4, 0, 0.0F), unchanged);
  for (int shard = 0; shard < 4; ++shard) {
    const std::string changed = adam_state_sha256(2, shard, 1e-3F);
    EXPECT_NE(changed, unchanged) << "shard " << shard;
    EXPECT_EQ(adam_state_sha256(4, shard, 1e-3F), changed) << "shard " << shard;
  }
}

}  // namespace
}  // namespace tandem::sync
