#include "tandem/sync/variables/sync_replicas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <latch>

#include "tandem/base/error.h"
#include "tandem/model/state_hash.h"
#include "tandem/sync/testing/served_world.h"
#include "tandem/sync/testing/strategy_world.h"

namespace tandem::sync {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// Words are shared between shards, and the head takes part in every second step only.
struct Reader : torch::nn::Module {
  Reader() {
    table = register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(6, 3).sparse(true)));
    body = register_module("body", torch::nn::Linear(3, 4));
    head = register_module("head", torch::nn::Linear(4, 2));
    const torch::NoGradGuard no_grad;
    double next = 0.1;
    for (torch::Tensor& parameter : parameters()) {
      for (std::int64_t i = 0; i < parameter.numel(); ++i) parameter.view({-1})[i].fill_(std::sin(next += 0.7));
    }
  }
  torch::Tensor loss(int shard, int step) {
    const torch::Tensor hidden = torch::tanh(body(table(torch::tensor({shard % 3, (shard + step) % 6, 5}))));
    return step % 2 == 0 ? head(hidden).square().mean() : hidden.square().mean() * (1 + shard);
  }
  torch::nn::Embedding table{nullptr};
  torch::nn::Linear body{nullptr}, head{nullptr};
};

std::string hash_after_steps(const StrategyOptions& strategy, int replicas) {
  const model::NamedTensors state =
      state_after({.shards = 4,
                   .replicas = replicas,
                   .strategy = strategy,
                   .optimizer = {model::AdamOptions{.lr = 0.05}},
                   .flat = {},
                   .build = [] { return std::make_shared<Reader>(); }},
                  [](Replica& replica, Strategy& training) {
                    auto& net = dynamic_cast<Reader&>(replica.module());
                    for (int step = 0; step < 6; ++step) {
                      for (int shard = replica.placement().mine.begin; shard < replica.placement().mine.end; ++shard) {
                        const double rows = step == 3 && shard == 1 ? 0 : 1 + shard;  // one has no valid row once
                        training.open(shard);
                        (net.loss(shard, step) * rows).backward();
                        training.close(rows, 0.25 * shard);
                      }
                      const StepReport report = training.step(1.0 / (step + 3), kNoLimits);
                      EXPECT_EQ(report.verdict, Verdict::kApplied);
                      EXPECT_EQ(report.step, step + 1);
                      EXPECT_EQ(report.weight, step == 3 ? 8 : 10);
                      EXPECT_NEAR(report.loss, 0.25 * (step == 3 ? 18 : 20) / report.weight, 1e-12);
                    }
                  });
  return model::state_sha256(state);
}

// The law: with one gradient of every replica it is Replicated, to the last bit: clipping, sparse gradients, parameters
// without one, uneven rows, learning rate and all.
TEST(SyncReplicasTest, AsManyGradientsAsReplicasGiveTheBitsOfReplicated) {
  for (const MeanOptions& mean :
       {MeanOptions{.max_grad_norm = 0.3}, MeanOptions{.max_grad_norm = {}, .divisor = Divisor::kPresent},
        MeanOptions{.max_grad_norm = 0.3, .divisor = Divisor::kShard}}) {
    const std::string expected = hash_after_steps(ReplicatedOptions{.mean = mean}, 2);
    for (const int replicas : {1, 2, 3, 4})
      EXPECT_EQ(hash_after_steps(SyncReplicasOptions{.mean = mean}, replicas), expected) << replicas << " replicas";
  }
}

// Of three parameters all losses reach the first, that of replica 1 alone the second.
struct ThreeScalars : torch::nn::Module {
  ThreeScalars() {
    for (const char* name : {"all", "some", "none"}) register_parameter(name, torch::ones({1}));
  }
};

TEST(SyncReplicasTest, AParameterIsUntouchedWhenNoGradientOfTheStepHasIt) {
  std::array<std::int64_t, 2> untouched{-1, -1};
  (void)state_after({.shards = 2,
                     .replicas = 2,
                     .strategy = SyncReplicasOptions{},
                     .optimizer = {model::SgdOptions{.lr = 0.1}},
                     .flat = {},
                     .build = [] { return std::make_shared<ThreeScalars>(); }},
                    [&](Replica& replica, Strategy& training) {
                      const int me = replica.placement().replica;
                      const auto parameters = replica.module().named_parameters();
                      training.open(me);
                      torch::Tensor loss = parameters["all"].sum();
                      if (me == 1) loss = loss + parameters["some"].sum();
                      loss.backward();
                      training.close(1, loss.item<double>());
                      untouched[static_cast<std::size_t>(me)] = training.step(1.0, kNoLimits).untouched;
                    });
  EXPECT_EQ(untouched[0], 1);
  EXPECT_EQ(untouched[1], 1);
}

TEST(SyncReplicasTest, OneReplicaWithSeveralGradientsAStepIsOneWithTheWholeBatch) {
  static constexpr int kGradients = 4, kSteps = 5;
  const auto run = [](const StrategyOptions& strategy, int passes) {
    std::vector<Verdict> verdicts;
    const model::NamedTensors state = state_after({.shards = 1,
                                                   .replicas = 1,
                                                   .strategy = strategy,
                                                   .optimizer = {model::AdamOptions{.lr = 0.05}},
                                                   .flat = {},
                                                   .build = [] { return std::make_shared<Reader>(); }},
                                                  [&](Replica& replica, Strategy& training) {
                                                    auto& net = dynamic_cast<Reader&>(replica.module());
                                                    for (int step = 0; step < kSteps; ++step) {
                                                      for (int pass = 0; pass < passes; ++pass) {
                                                        training.open(0);
                                                        double rows = 0;
                                                        for (int part = 0; part < kGradients / passes; ++part) {
                                                          const int shard = passes == 1 ? part : pass;
                                                          (net.loss(shard, step) * (1 + shard)).backward();
                                                          rows += 1 + shard;
                                                        }
                                                        training.close(rows, 0.0);
                                                        const StepReport report = training.step(1.0, kNoLimits);
                                                        verdicts.push_back(report.verdict);
                                                        if (passes == 1) continue;
                                                        EXPECT_EQ(report.part_of, step + 1);
                                                        EXPECT_EQ(report.gradients, pass + 1);
                                                        EXPECT_EQ(report.of_gradients, kGradients);
                                                      }
                                                    }
                                                  });
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      const bool ends_step = (i + 1) % static_cast<std::size_t>(passes) == 0;
      EXPECT_EQ(verdicts[i], ends_step ? Verdict::kApplied : Verdict::kAccepted) << i;
    }
    return state;
  };
  const model::NamedTensors whole = run(ReplicatedOptions{}, 1);
  const model::NamedTensors parts = run(SyncReplicasOptions{.replicas_to_aggregate = kGradients}, kGradients);
  ASSERT_EQ(whole.size(), parts.size());
  for (std::size_t i = 0; i < whole.size(); ++i)
    EXPECT_TRUE(torch::allclose(whole[i].second, parts[i].second, 0, 1e-6)) << whole[i].first;
}

// Replica k's gradient is 2^k, so the update says whose were averaged; newest() says it by id.
TEST(SyncReplicasTest, OfBackupReplicasExactlyTheFirstToComeAreAveraged) {
  std::latch first_step(2), second_step(2);
  const auto outcomes =
      run_synchronous({.shards = 3, .replicas = 3, .options = {.replicas_to_aggregate = 2}, .build = build_linear()},
                      [&](Replica& replica, SyncReplicas& strategy) {
                        const int me = replica.placement().replica;
                        if (me == 2) first_step.wait();
                        if (me != 2) {
                          EXPECT_EQ(step_linear(replica, strategy).verdict, Verdict::kApplied);
                          expect_all(linear_values(replica), -0.5 * 1.5);
                          first_step.count_down();
                        } else {
                          const StepReport late = step_linear(replica, strategy);
                          EXPECT_EQ(late.verdict, Verdict::kDropped);
                          EXPECT_EQ(late.staleness, 1);
                          EXPECT_EQ(late.weight, 1);
                          EXPECT_EQ(late.step, 1);
                          EXPECT_EQ(late.part_of, 2);
                          EXPECT_LE(late.gradients, 1) << "replica 0's, perhaps";
                          expect_all(linear_values(replica), -0.5 * 1.5);
                        }
                        if (me == 1) {
                          second_step.wait();
                          const StepReport late = step_linear(replica, strategy);
                          EXPECT_EQ(late.verdict, Verdict::kDropped);
                          EXPECT_EQ(late.step, 2);
                        } else {
                          const StepReport report = step_linear(replica, strategy);
                          EXPECT_EQ(report.verdict, Verdict::kApplied);
                          EXPECT_EQ(report.weight, 2);
                          EXPECT_EQ(report.part_of, 2);
                          EXPECT_EQ(report.gradients, 2);
                          EXPECT_EQ(report.of_gradients, 2);
                          second_step.count_down();
                        }
                        expect_all(linear_values(replica), -0.5 * (1.5 + 2.5));
                        if (me == 0) {
                          std::vector<GradientId> newest = strategy.variables()->newest();
                          std::sort(newest.begin(), newest.end());
                          EXPECT_THAT(newest, ElementsAre(GradientId{0, 1}, GradientId{2, 1}));
                        }
                        strategy.leave(in_a_minute());
                      });
  EXPECT_THAT(outcomes, Each(""));
}

// TensorFlow's fast workers lose a third of their gradients here.
TEST(SyncReplicasTest, FastReplicasLoseNothingToAStraggler) {
  constexpr int kSteps = 50;
  std::latch fast(2);
  const auto outcomes =
      run_synchronous({.shards = 3, .replicas = 3, .options = {.replicas_to_aggregate = 2}, .build = build_linear()},
                      [&](Replica& replica, SyncReplicas& strategy) {
                        const int me = replica.placement().replica;
                        if (me == 2) fast.wait();
                        for (int step = 0; step < (me == 2 ? 1 : kSteps); ++step) {
                          const StepReport report = step_linear(replica, strategy);
                          EXPECT_EQ(report.verdict, me == 2 ? Verdict::kDropped : Verdict::kApplied);
                          EXPECT_EQ(report.staleness, me == 2 ? kSteps : 0);
                        }
                        if (me != 2) fast.count_down();
                        strategy.leave(in_a_minute());
                        if (me != 0) return;
                        const std::vector<GradientTotals> totals = strategy.variables()->take_account().replicas;
                        EXPECT_EQ(totals[0].applied, kSteps);
                        EXPECT_EQ(totals[1].applied, kSteps);
                        EXPECT_EQ(totals[2].offered, 1);
                        EXPECT_EQ(totals[2].dropped, 1);
                      });
  EXPECT_THAT(outcomes, Each(""));
}

// Without any order: what was offered was applied or dropped, and steps have the gradients that they should.
TEST(SyncReplicasTest, EveryGradientIsAccountedFor) {
  for (const bool like_tensorflow : {false, true}) {
    for (const int aggregate : {2, 4, 7}) {
      SyncReplicasOptions options = like_tensorflow ? tensorflow_compatible() : SyncReplicasOptions{};
      options.replicas_to_aggregate = aggregate;
      std::vector<StepReport> last(4);
      std::vector<std::int64_t> dropped(4);
      const auto outcomes = run_synchronous({.shards = 4, .replicas = 4, .options = options, .build = build_linear()},
                                            [&](Replica& replica, SyncReplicas& strategy) {
                                              const auto me = static_cast<std::size_t>(replica.placement().replica);
                                              while (last[me].step < 30) {
                                                last[me] = step_linear(replica, strategy);
                                                dropped[me] += last[me].verdict == Verdict::kDropped ? 1 : 0;
                                              }
                                              strategy.leave(in_a_minute());
                                              if (me != 0) return;
                                              std::int64_t applied = 0;
                                              const std::vector<GradientTotals> totals =
                                                  strategy.variables()->take_account().replicas;
                                              for (std::size_t i = 0; i < totals.size(); ++i) {
                                                EXPECT_EQ(totals[i].in_flight(), 0);
                                                EXPECT_EQ(totals[i].dropped, dropped[i]);
                                                applied += totals[i].applied;
                                              }
                                              EXPECT_GE(applied, 30 * aggregate);
                                            });
      EXPECT_THAT(outcomes, Each(""));
    }
  }
}

TEST(SyncReplicasTest, AveragesAreThoseOfTheStepBeforeAnybodyGoesOn) {
  constexpr double kDecay = 0.75;
  const auto outcomes = run_synchronous(
      {.options = {.average_decay = kDecay}, .build = build_linear()}, [&](Replica& replica, SyncReplicas& strategy) {
        double expected = 0;
        for (int step = 0; step < 5; ++step) {
          (void)step_linear(replica, strategy);
          // The next step needs this replica, so nobody makes it meanwhile.
          expected = kDecay * expected + (1 - kDecay) * linear_values(replica)[0].item<double>();
          const model::NamedTensors averages = strategy.variables()->averages();
          ASSERT_EQ(averages.size(), 1U);
          EXPECT_EQ(averages[0].first, "averages.values");
          expect_all(averages[0].second, expected);
        }
        strategy.leave(in_a_minute());
      });
  EXPECT_THAT(outcomes, Each(""));
}

TEST(SyncReplicasTest, TheWholeStateHasTheAveragesAndGoesOnWhereItWasLoaded) {
  const SyncWorld world{
      .options = {.average_decay = 0.5}, .build = build_linear(), .optimizer = model::AdamOptions{.lr = 0.1}};
  model::NamedTensors saved;
  std::vector<std::string> unbroken(2), resumed(2);
  const auto hash = [](const model::NamedTensors& state) { return model::state_sha256(state); };
  EXPECT_THAT(run_synchronous(world,
                              [&](Replica& replica, SyncReplicas& strategy) {
                                const auto me = static_cast<std::size_t>(replica.placement().replica);
                                for (int i = 0; i < 3; ++i) (void)step_linear(replica, strategy);
                                const model::NamedTensors state = strategy.whole_state(in_a_minute());
                                EXPECT_EQ(state.empty(), me != 0);
                                for (const auto& [name, tensor] : state) saved.emplace_back(name, tensor.clone());
                                for (int i = 0; i < 3; ++i) (void)step_linear(replica, strategy);
                                unbroken[me] = hash(strategy.whole_state(in_a_minute()));
                              }),
              Each(""));
  EXPECT_EQ(saved.back().first, "averages.values");
  EXPECT_THAT(run_synchronous(world,
                              [&](Replica& replica, SyncReplicas& strategy) {
                                const auto me = static_cast<std::size_t>(replica.placement().replica);
                                (void)step_linear(replica, strategy);
                                strategy.load_whole_state(saved);
                                for (int i = 0; i < 3; ++i) (void)step_linear(replica, strategy);
                                resumed[me] = hash(strategy.whole_state(in_a_minute()));
                                model::NamedTensors without = saved;
                                without.pop_back();
                                EXPECT_THROW(strategy.load_whole_state(without), CheckpointError);
                              }),
              Each(""));
  EXPECT_EQ(resumed, unbroken);
}

// Two replicas with gradients of norm 3 and 4: each clipped to 2, their mean to 1.
TEST(SyncReplicasTest, GradientsAreClippedBeforeTheMeanAfterItOrBoth) {
  const auto moved = [](std::optional<double> before, std::optional<double> after) {
    torch::Tensor values;
    const auto outcomes =
        run_synchronous({.options = {.mean = {.max_grad_norm = after}, .max_replica_grad_norm = before},
                         .build = [](int) { return std::make_shared<Linear>(1); }},
                        [&](Replica& replica, SyncReplicas& strategy) {
                          const int me = replica.placement().replica;
                          strategy.open(me);
                          (dynamic_cast<Linear&>(replica.module()).values.sum() * (3 + me)).backward();
                          strategy.close(1, 0.0);
                          const StepReport report = strategy.step(1.0, in_a_minute());
                          EXPECT_NEAR(report.grad_norm, before ? *before : 3.5, 1e-5);
                          if (me == 0) values = linear_values(replica);
                        });
    EXPECT_THAT(outcomes, Each(""));
    return values[0].item<double>() / -0.5;
  };
  EXPECT_NEAR(moved({}, {}), 3.5, 1e-5);
  EXPECT_NEAR(moved(2, {}), 2, 1e-5);
  EXPECT_NEAR(moved({}, 1), 1, 1e-5);
  EXPECT_NEAR(moved(2, 1), 1, 1e-5);
}

}  // namespace
}  // namespace tandem::sync
