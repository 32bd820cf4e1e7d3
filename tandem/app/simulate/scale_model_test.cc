#include <gtest/gtest.h>

#include "tandem/app/simulate/scale.h"

namespace tandem::app {
namespace {

using pipeline::Stragglers;

constexpr SimulatedWire kFree{.latency_ms = 0, .gigabits_per_s = 1e9};

TEST(ScaleModelTest, WithoutTailAndWireEveryPolicyScalesExactly) {
  const SimulatedWork work;
  const double one = model_update(work, kFree, 1, Stragglers::kWaitAll).samples_per_s();
  EXPECT_NEAR(one, 1e3 * 128 / (128 + 160), 1e-9);
  for (const Stragglers policy : kPolicies)
    EXPECT_NEAR(model_update(work, kFree, 1000, policy).samples_per_s(), 1000 * one, 1e-3);
}

// Seven ranks make 128 steps in 128 ms, the last needs 512.
TEST(ScaleModelTest, PreemptionEndsWithTheOthersAndWaitingWithTheSlowest) {
  const SimulatedWork work{.slow_factor = 4};
  const ModelledUpdate waiting = model_update(work, kFree, 8, Stragglers::kWaitAll);
  EXPECT_NEAR(waiting.rollout_ms, 512, 1e-9);
  EXPECT_EQ(waiting.samples, 8 * 128);
  const ModelledUpdate preempted = model_update(work, kFree, 8, Stragglers::kPreempt);
  EXPECT_NEAR(preempted.rollout_ms, 128, 1e-9);
  EXPECT_EQ(preempted.samples, 7 * 128 + 32);
}

TEST(ScaleModelTest, EveryRankMakesItsLeastSteps) {
  const SimulatedWork work{.slow_factor = 100};
  const ModelledUpdate preempted = model_update(work, kFree, 8, Stragglers::kPreempt);
  EXPECT_NEAR(preempted.rollout_ms, 100 * 32, 1e-6);
  EXPECT_EQ(preempted.samples, 7 * 128 + 32);
}

TEST(ScaleModelTest, TimeOptimalIsNotBelowTheOthers) {
  for (const double shape : {1.1, 1.5, 3.0}) {
    const SimulatedWork work{.step = {.mean_ms = 1, .shape = shape}};
    for (const int ranks : {4, 64, 512}) {
      const double best = model_update(work, {}, ranks, Stragglers::kTimeOptimal).samples_per_s();
      EXPECT_GE(best, 0.995 * model_update(work, {}, ranks, Stragglers::kWaitAll).samples_per_s());
      EXPECT_GE(best, 0.995 * model_update(work, {}, ranks, Stragglers::kPreempt).samples_per_s());
    }
  }
}

// 16 sums, each 2 log2(4) messages of 1 ms and twice 3/4 of 32 kbit at 1 Gbit/s.
TEST(ScaleModelTest, SumsCostMessagesAndBytes) {
  SimulatedWork work;
  work.parameters = 1000;
  const SimulatedWire wire{.latency_ms = 1, .gigabits_per_s = 1};
  EXPECT_NEAR(model_update(work, wire, 4, Stragglers::kWaitAll).wire_ms, 16 * (4 + 1.5 * 0.032), 1e-9);
  EXPECT_EQ(model_update(work, wire, 1, Stragglers::kWaitAll).wire_ms, 0);
}

}  // namespace
}  // namespace tandem::app
