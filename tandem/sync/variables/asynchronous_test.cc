#include "tandem/sync/variables/asynchronous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/types.h>

#include <atomic>

#include "tandem/base/error.h"
#include "tandem/model/state_hash.h"
#include "tandem/sync/testing/served_world.h"

namespace tandem::sync {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Limits a_minute_from_now() { return within(60s); }

torch::Tensor values_of(Replica& replica) { return dynamic_cast<Linear&>(replica.module()).values.detach().clone(); }

// The gradient does not depend on the values, so no order of updates matters; all numbers are powers of two.
TEST(AsynchronousTest, UpdatesAddUpExactlyWhateverTheirOrder) {
  for (const Scaling scaling : {Scaling::kByReplicas, Scaling::kNone}) {
    constexpr int kReplicas = 4, kSteps = 25;
    std::vector<torch::Tensor> values(kReplicas);
    const auto outcomes = run_on_threads(
        {.shards = 4, .replicas = kReplicas, .options = {.mean = {}, .scaling = scaling}, .build = build_linear()},
        [&](Replica& replica, Asynchronous& strategy) {
          for (int i = 0; i < kSteps; ++i) EXPECT_EQ(step_linear(replica, strategy).verdict, Verdict::kApplied);
          strategy.leave(a_minute_from_now());
          values[static_cast<std::size_t>(replica.placement().replica)] = values_of(replica);
        });
    EXPECT_THAT(outcomes, Each(""));
    const double share = scaling == Scaling::kByReplicas ? 0.25 : 1;
    const double moved = -0.5 * share * kSteps * (1 + 2 + 4 + 8);
    for (const torch::Tensor& each : values) EXPECT_TRUE(torch::equal(each, torch::full({8}, moved))) << each;
  }
}

// 1, 1, 0: replica 0's gradient was made before both updates of replica 1.
TEST(AsynchronousTest, StalenessIsReportedOfEachStep) {
  Script script({1, 1, 0, 0, 1});
  std::vector<std::vector<std::int64_t>> staleness(2);
  const auto outcomes = run_on_threads({.build = build_linear()}, [&](Replica& replica, Asynchronous& strategy) {
    const int me = replica.placement().replica;
    script.play(me, [&] {
      const StepReport report = step_linear(replica, strategy);
      staleness[static_cast<std::size_t>(me)].push_back(report.staleness);
      EXPECT_EQ(report.step, std::ssize(staleness[static_cast<std::size_t>(me)]));
    });
    strategy.leave(a_minute_from_now());
  });
  EXPECT_THAT(outcomes, Each(""));
  EXPECT_THAT(staleness[0], ElementsAre(2, 0));
  EXPECT_THAT(staleness[1], ElementsAre(0, 0, 2));
}

TEST(AsynchronousTest, AGradientBeyondTheBoundIsDroppedAndItsReplicaTold) {
  Script script({1, 1, 0, 0});
  std::vector<Verdict> verdicts;
  torch::Tensor after;
  std::optional<GradientAccount> account;
  const auto outcomes =
      run_on_threads({.options = {.scaling = Scaling::kNone, .drop_staler = 1}, .build = build_linear()},
                     [&](Replica& replica, Asynchronous& strategy) {
                       const int me = replica.placement().replica;
                       script.play(me, [&] {
                         const StepReport report = step_linear(replica, strategy);
                         if (me == 0) verdicts.push_back(report.verdict);
                         if (me == 0 && verdicts.size() == 1) after = values_of(replica);
                       });
                       strategy.leave(a_minute_from_now());
                       const std::optional<GradientAccount> its = strategy.take_account();
                       EXPECT_EQ(its.has_value(), me == 0);
                       if (its) account = its;
                     });
  EXPECT_THAT(outcomes, Each(""));
  EXPECT_THAT(verdicts, ElementsAre(Verdict::kDropped, Verdict::kApplied));
  EXPECT_TRUE(torch::equal(after, torch::full({8}, -0.5 * 2 * 2))) << "it goes on from the others' values: " << after;
  ASSERT_TRUE(account);
  EXPECT_EQ(account->replicas.at(0).dropped, 1);
  EXPECT_EQ(account->replicas.at(0).applied, 1);
  EXPECT_EQ(account->replicas.at(1).applied, 2);
  for (const GradientTotals& each : account->replicas) {
    EXPECT_EQ(each.offered, 2);
    EXPECT_EQ(each.in_flight(), 0);
  }
  EXPECT_EQ(account->sizes.steps, 3) << "each that is applied is a step";
  EXPECT_EQ(account->sizes.gradients.most, 1);
  EXPECT_EQ(account->sizes.rows.sum, 3);
}

TEST(AsynchronousTest, WhoIsTooFarAheadWaitsUntilItsDeadlineAndNamesTheSlowOne) {
  std::atomic<int> steps = 0;
  const auto outcomes = run_on_threads({.options = {.wait_for_slower = 2}, .build = build_linear()},
                                       [&](Replica& replica, Asynchronous& strategy) {
                                         if (replica.placement().replica == 1) return;
                                         for (;;) {
                                           (void)step_linear(replica, strategy, within(20ms));
                                           ++steps;
                                         }
                                       });
  EXPECT_EQ(steps, 2);
  EXPECT_THAT(outcomes[0], AllOf(HasSubstr("replica 0 waited for replica 1"), HasSubstr("deadline")));
}

TEST(AsynchronousTest, WhoLeavesKeepsNobodyWaiting) {
  std::vector<torch::Tensor> values(2);
  const auto outcomes = run_on_threads({.options = {.wait_for_slower = 0}, .build = build_linear()},
                                       [&](Replica& replica, Asynchronous& strategy) {
                                         const int me = replica.placement().replica;
                                         for (int i = 0; i < (me == 0 ? 3 : 11); ++i)
                                           (void)step_linear(replica, strategy);
                                         strategy.leave(a_minute_from_now());
                                         values[static_cast<std::size_t>(me)] = values_of(replica);
                                       });
  EXPECT_THAT(outcomes, Each(""));
  for (const torch::Tensor& each : values)
    EXPECT_TRUE(torch::equal(each, torch::full({8}, -0.25 * (3 * 1 + 11 * 2)))) << each;
}

TEST(AsynchronousTest, AFailedReplicaEndsTheWaitsOfTheOthersByName) {
  const auto outcomes = run_on_threads({.options = {.wait_for_slower = 0}, .build = build_linear()},
                                       [&](Replica& replica, Asynchronous& strategy) {
                                         (void)step_linear(replica, strategy);  // both have begun
                                         if (replica.placement().replica == 1) throw RunError("no more milk");
                                         for (;;) (void)step_linear(replica, strategy);
                                       });
  EXPECT_THAT(outcomes[0], AllOf(HasSubstr("replica 1"), HasSubstr("no more milk")));
}

TEST(AsynchronousTest, ImpossibleBoundsAreRefused) {
  const std::vector<AsynchronousOptions> impossible{
      {.wait_for_slower = -1}, {.drop_staler = -2}, {.wait_for_slower = 1, .drop_staler = 1}};
  for (const AsynchronousOptions& options : impossible) {
    const auto outcomes = run_on_threads({.options = options, .build = build_linear()}, [](Replica&, Asynchronous&) {});
    EXPECT_THAT(outcomes, Each(HasSubstr("asynchronous.")));
  }
}

// Words are shared and repeated, one is nobody's; replica 1 reaches `late` in its second step only.
struct WordTable : torch::nn::Module {
  WordTable() {
    table = register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(6, 2).sparse(true)));
    late = register_parameter("late", torch::ones({3}));
    never = register_parameter("never", torch::ones({3}));
    const torch::NoGradGuard no_grad;
    table->weight.zero_();
  }
  torch::nn::Embedding table{nullptr};
  torch::Tensor late, never;
};

TEST(AsynchronousTest, SparseGradientsAreAppliedByRowAndWhatNobodyReachedIsLeftAlone) {
  std::vector<model::NamedTensors> states(2);
  const auto outcomes = run_on_threads(
      {.options = {.mean = {}, .scaling = Scaling::kNone}, .build = [](int) { return std::make_shared<WordTable>(); }},
      [&](Replica& replica, Asynchronous& strategy) {
        const int me = replica.placement().replica;
        auto& net = dynamic_cast<WordTable&>(replica.module());
        for (int i = 0; i < 2; ++i) {
          strategy.open(me);
          torch::Tensor loss = net.table(torch::tensor({me, 3, 3})).sum();
          if (me == 1 && i == 1) loss = loss + net.late.sum();
          loss.backward();
          strategy.close(1, 0.0);
          (void)strategy.step(1.0, a_minute_from_now());
        }
        strategy.leave(a_minute_from_now());
        for (const auto& [name, tensor] : replica.named_state())
          states[static_cast<std::size_t>(me)].emplace_back(name, tensor.clone());
      });
  EXPECT_THAT(outcomes, Each(""));
  EXPECT_EQ(model::state_sha256(states[0]), model::state_sha256(states[1]));
  for (const auto& [name, tensor] : states[0]) {
    torch::Tensor expected = tensor;
    if (name == "table.weight")
      expected = torch::tensor({-1.0F, -1.0F, 0.0F, -4.0F, 0.0F, 0.0F}).unsqueeze(1).expand({6, 2});
    if (name == "late") expected = torch::full({3}, 0.5);
    if (name == "never") expected = torch::ones({3});
    EXPECT_TRUE(torch::equal(tensor, expected)) << name << tensor;
  }
}

TEST(AsynchronousTest, AStepWithoutRowsOffersNothing) {
  std::vector<torch::Tensor> values(2);
  const auto outcomes = run_on_threads({.build = build_linear()}, [&](Replica& replica, Asynchronous& strategy) {
    const int me = replica.placement().replica;
    strategy.open(me);
    if (me == 0) dynamic_cast<Linear&>(replica.module()).loss(me).backward();
    strategy.close(me == 0 ? 1 : 0, 0.0);
    const StepReport report = strategy.step(1.0, a_minute_from_now());
    EXPECT_EQ(report.weight, me == 0 ? 1 : 0);
    strategy.leave(a_minute_from_now());
    values[static_cast<std::size_t>(me)] = values_of(replica);
  });
  EXPECT_THAT(outcomes, Each(""));
  for (const torch::Tensor& each : values) EXPECT_TRUE(torch::equal(each, torch::full({8}, -0.25))) << each;
}

TEST(AsynchronousTest, BeginMayBeCalledAgainAndLosesNoUpdate) {
  constexpr int kReplicas = 3, kSteps = 7;
  std::vector<std::string> hashes(kReplicas);
  torch::Tensor values;
  const auto outcomes =
      run_on_threads({.shards = 3,
                      .replicas = kReplicas,
                      .options = {.mean = {}, .scaling = Scaling::kNone},
                      .build = build_linear(),
                      .optimizer = model::SgdOptions{.lr = 0.5}},
                     [&](Replica& replica, Asynchronous& strategy) {
                       const int me = replica.placement().replica;
                       for (int epoch = 0; epoch < 3; ++epoch) {
                         for (int i = 0; i < kSteps; ++i) (void)step_linear(replica, strategy);
                         strategy.begin(a_minute_from_now());
                       }
                       hashes[static_cast<std::size_t>(me)] = model::state_sha256(replica.named_state());
                       if (me == 2) values = values_of(replica);
                       EXPECT_EQ(step_linear(replica, strategy).step, 1) << "steps are counted from begin()";
                       strategy.leave(a_minute_from_now());
                     });
  EXPECT_THAT(outcomes, Each(""));
  EXPECT_THAT(hashes, Each(hashes[0]));
  EXPECT_TRUE(torch::equal(values, torch::full({8}, -0.5 * 3 * kSteps * (1 + 2 + 4)))) << values;
}

// With Adam: moments and step counts are those of all updates together.
TEST(AsynchronousTest, TheWholeStateIsOneAndGoesOnWhereItWasLoaded) {
  model::NamedTensors saved;
  const AsynchronousWorld world{.build = build_linear(), .optimizer = model::AdamOptions{.lr = 0.1}};
  std::vector<std::string> hashes(2), after(2);
  EXPECT_THAT(run_on_threads(world,
                             [&](Replica& replica, Asynchronous& strategy) {
                               const int me = replica.placement().replica;
                               for (int i = 0; i < 5; ++i) (void)step_linear(replica, strategy);
                               const model::NamedTensors state = strategy.whole_state(a_minute_from_now());
                               EXPECT_EQ(state.empty(), me != 0);
                               hashes[static_cast<std::size_t>(me)] = model::state_sha256(replica.named_state());
                               for (const auto& [name, tensor] : state) saved.emplace_back(name, tensor.clone());
                               (void)step_linear(replica, strategy);  // nobody has left
                             }),
              Each(""));
  EXPECT_EQ(hashes[0], hashes[1]);
  std::vector<std::int64_t> counts;
  EXPECT_THAT(run_on_threads(world,
                             [&](Replica& replica, Asynchronous& strategy) {
                               const int me = replica.placement().replica;
                               (void)step_linear(replica, strategy);
                               strategy.load_whole_state(saved);
                               EXPECT_EQ(model::state_sha256(replica.named_state()), hashes[0]);
                               if (me == 1) (void)step_linear(replica, strategy);
                               strategy.leave(a_minute_from_now());
                               after[static_cast<std::size_t>(me)] = model::state_sha256(replica.named_state());
                               for (const auto& [name, tensor] : replica.optimizer().state()) {
                                 if (me == 0 && name.starts_with("step")) counts.push_back(tensor.item<std::int64_t>());
                               }
                             }),
              Each(""));
  EXPECT_EQ(after[0], after[1]);
  EXPECT_THAT(counts, ElementsAre(11)) << "ten steps that were saved, and one";
}

struct NormedWeights : torch::nn::Module {
  NormedWeights() {
    norm = register_module("norm", torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(2).momentum(1.0)));
    label = register_buffer("label", torch::full({1}, -1, torch::kLong));
  }
  torch::nn::BatchNorm1d norm{nullptr};
  torch::Tensor label;
};

TEST(AsynchronousTest, BuffersBecomeTheMeanOfTheReplicasWhenAllAreMadeEqual) {
  const auto outcomes = run_on_threads(
      {.build = [](int) { return std::make_shared<NormedWeights>(); }}, [&](Replica& replica, Asynchronous& strategy) {
        const int me = replica.placement().replica;
        auto& net = dynamic_cast<NormedWeights&>(replica.module());
        strategy.open(me);
        net.norm(torch::tensor({{0.0F, 1.0F}, {2.0F, 5.0F}}) * (me == 0 ? 1 : 10)).square().sum().backward();
        net.label.fill_(me + 5);
        strategy.close(1, 0.0);
        (void)strategy.step(1.0, a_minute_from_now());
        EXPECT_EQ(net.norm->running_mean[0].item<float>(), me == 0 ? 1 : 10) << "its own until then";
        strategy.leave(a_minute_from_now());
        EXPECT_TRUE(torch::allclose(net.norm->running_mean, torch::tensor({5.5F, 16.5F}))) << net.norm->running_mean;
        EXPECT_EQ(net.label.item<std::int64_t>(), 5);
      });
  EXPECT_THAT(outcomes, Each(""));
}

TEST(AsynchronousTest, DifferentModelsAreRefusedByName) {
  const auto outcomes = run_on_threads({.build = [](int replica) { return std::make_shared<Linear>(8 + replica); }},
                                       [](Replica&, Asynchronous&) {});
  EXPECT_THAT(outcomes, ::testing::Contains(AllOf(HasSubstr("values"), HasSubstr("[8]"), HasSubstr("[9]"))));
}

TEST(AsynchronousTest, AGradientThatIsNotFiniteIsNotOffered) {
  torch::Tensor values;
  const auto outcomes = run_on_threads({.build = build_linear()}, [&](Replica& replica, Asynchronous& strategy) {
    strategy.open(replica.placement().replica);
    (dynamic_cast<Linear&>(replica.module()).loss(0) * std::nan("")).backward();
    strategy.close(1, 0.0);
    (void)strategy.step(1.0, a_minute_from_now());
  });
  EXPECT_THAT(outcomes, ::testing::Contains(AllOf(HasSubstr("'values'"), HasSubstr("not finite"))));
}

}  // namespace
}  // namespace tandem::sync
