// `tandem train` where steps are not made of a gradient of each replica, under sync_replicas with fewer or more of them
// and under asynchronous: it ends, and all gradients are accounted for. With as many as replicas, strategy_test.cc
// compares its state with that of replicated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "gradient_account.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "training.h"

namespace tandem::process_test {
namespace {

using ::testing::HasSubstr;

Command synchronous(const Command& training, const std::vector<std::string>& settings) {
  return under_strategy("sync_replicas", training, settings);
}

// Of 16 updates with two passes over two minibatches, none of which ends early.
constexpr std::int64_t kSteps = 4096, kGradientsOfEach = 64;

Recipe of_whole_updates(Recipe recipe) {
  return with_setting(with_steps(std::move(recipe), kSteps), "ppo.target_kl=none");
}

// With fewer, those that still work at the end of an update make its last steps, so nothing is left over.
TEST(SyncReplicasTrainingTest, FewerOrMoreGradientsThanReplicasEndToo) {
  for (const auto& [aggregate, most_in_flight] : {std::pair{3, 0}, std::pair{6, 5}}) {
    SCOPED_TRACE(concat(aggregate, " gradients a step"));
    const TemporaryFolder scratch;
    const auto folder = scratch / "run";
    const Ended ended = run(as_ranks(2, synchronous(train(of_whole_updates(pendulum()), folder, "cpu:2"),
                                                    {concat("sync_replicas.replicas_to_aggregate=", aggregate),
                                                     "sync_replicas.average_decay=0.9"})));
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    expect_accounted_for(folder, {.of_each = kGradientsOfEach, .most_in_flight = most_in_flight},
                         ended.err + ended.out);
    expect_line_for_every_update(folder);
    expect_inspectable(folder);
  }
}

TEST(SyncReplicasTrainingTest, AsynchronousTrainingAccountsForWhatItDrops) {
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  const Command training = train(of_whole_updates(pendulum()), folder, "cpu:2");
  const Ended ended = run(as_ranks(2, under_strategy("asynchronous", training, {"asynchronous.drop_staler=0"})));
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  expect_accounted_for(folder, {.of_each = kGradientsOfEach}, ended.err + ended.out);
  EXPECT_GT(dropped_in(folder), 0) << "four replicas, and no gradient may be stale";
}

TEST(SyncReplicasTrainingTest, TheNumbersOfTensorFlowEndToo) {
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  const Ended ended =
      run(as_ranks(2, synchronous(train(of_whole_updates(cartpole()), folder, "cpu:2"),
                                  {"sync_replicas.acceptance=per_variable", "sync_replicas.sparse_mean=by_index",
                                   "sync_replicas.tokens=shared"})));
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  expect_accounted_for(folder, {.of_each = kGradientsOfEach}, ended.err + ended.out);
}

TEST(SyncReplicasTrainingTest, AKilledRunGoesOnFromItsCheckpointWithItsAverages) {
  const Recipe recipe = with_steps(cartpole(), kSteps);
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  const Ended killed =
      run(as_ranks(2, synchronous(train(recipe, folder, "cpu:1", "checkpoint.before_manifest:3:kill"),
                                  {"sync_replicas.replicas_to_aggregate=1", "sync_replicas.average_decay=0.9"})));
  EXPECT_NE(killed.exit_code, 0);
  expect_success(resume(folder, "cpu:2"));
  EXPECT_EQ(summary_of(folder).at("resumed").as_string(), "inexactly");
  expect_line_for_every_update(folder);
}

TEST(SyncReplicasTrainingTest, KeysOfAnotherStrategyAreRefused) {
  const TemporaryFolder scratch;
  Command command = train(cartpole(), scratch / "run", "cpu:2");
  command.arguments.insert(command.arguments.end(), {"--set", "sync_replicas.tokens=shared"});
  const Ended ended = run(command);
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("no effect without strategy: sync_replicas"));
}

}  // namespace
}  // namespace tandem::process_test
