// `tandem train` where steps are not made of a gradient of each replica, under sync_replicas with fewer or more of them
// and under asynchronous: it ends, and all gradients are accounted for. With as many as replicas, strategy_test.cc
// compares its state with that of replicated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "training.h"

namespace tandem::process_test {
namespace {

using ::testing::HasSubstr;

Command synchronous(const Command& training, const std::vector<std::string>& settings) {
  return under_strategy("sync_replicas", training, settings);
}

void expect_accounted_for(const std::filesystem::path& folder, std::size_t replicas) {
  const JsonValue summary = summary_of(folder);
  const auto& work = summary.at("replicas").as_array();
  ASSERT_EQ(work.size(), replicas);
  for (const JsonValue& replica : work) {
    EXPECT_GT(replica.at("gradients").as_int64(), 0);
    EXPECT_EQ(replica.at("gradients").as_int64(), replica.at("accepted").as_int64() + replica.at("dropped").as_int64());
    EXPECT_GE(replica.at("waited_s").as_double(), 0);
  }
}

// Replicas' totals and the steps' sizes: of the whole run in the summary, in the last line, and in the table.
void expect_steps_told(const std::filesystem::path& folder, const std::string& shown) {
  const JsonValue summary = summary_of(folder);
  const JsonValue& steps = summary.at("steps");
  const auto& work = summary.at("replicas").as_array();
  std::int64_t applied = 0;
  for (std::size_t k = 0; k < work.size(); ++k) {
    applied += work[k].at("applied").as_int64();
    const auto in_line = [&](const char* name) { return summary.at(concat("replica/", k, "/", name)).as_int64(); };
    EXPECT_EQ(in_line("offered"), work[k].at("gradients").as_int64());
    EXPECT_EQ(in_line("applied"), work[k].at("applied").as_int64());
    EXPECT_LE(work[k].at("applied").as_int64(), work[k].at("accepted").as_int64());
  }
  const auto made = static_cast<double>(steps.at("made").as_int64());
  EXPECT_NEAR(steps.at("gradients").at("mean").as_double() * made, static_cast<double>(applied), 1e-6);
  EXPECT_GE(steps.at("effective_batch").at("min").as_double(), 1);
  EXPECT_THAT(shown, HasSubstr("accepted    applied    dropped  waited ms"));
  EXPECT_THAT(shown, HasSubstr(concat(steps.at("made").as_int64(), " steps, each of ")));
}

TEST(SyncReplicasTrainingTest, FewerOrMoreGradientsThanReplicasEndToo) {
  for (const char* aggregate : {"3", "6"}) {
    const TemporaryFolder scratch;
    const auto folder = scratch / "run";
    const Ended ended = run(as_ranks(2, synchronous(train(with_steps(pendulum(), 4096), folder, "cpu:2"),
                                                    {std::string("sync_replicas.replicas_to_aggregate=") + aggregate,
                                                     "sync_replicas.average_decay=0.9"})));
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    expect_accounted_for(folder, 4);
    expect_steps_told(folder, ended.err + ended.out);
    expect_line_for_every_update(folder);
    expect_inspectable(folder);
  }
}

TEST(SyncReplicasTrainingTest, AsynchronousTrainingAccountsForWhatItDrops) {
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  const Command training = train(with_steps(pendulum(), 4096), folder, "cpu:2");
  const Ended ended = run(as_ranks(2, under_strategy("asynchronous", training, {"asynchronous.drop_staler=0"})));
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  expect_accounted_for(folder, 4);
  expect_steps_told(folder, ended.err + ended.out);
  std::int64_t dropped = 0;
  const JsonValue summary = summary_of(folder);
  for (const JsonValue& replica : summary.at("replicas").as_array()) {
    dropped += replica.at("dropped").as_int64();
    EXPECT_EQ(replica.at("applied").as_int64(), replica.at("accepted").as_int64()) << "nothing is kept back";
  }
  EXPECT_GT(dropped, 0) << "four replicas, and no gradient may be stale";
}

TEST(SyncReplicasTrainingTest, TheNumbersOfTensorFlowEndToo) {
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  expect_success(as_ranks(2, synchronous(train(with_steps(cartpole(), 4096), folder, "cpu:2"),
                                         {"sync_replicas.acceptance=per_variable", "sync_replicas.sparse_mean=by_index",
                                          "sync_replicas.tokens=shared"})));
  expect_accounted_for(folder, 4);
}

TEST(SyncReplicasTrainingTest, AKilledRunGoesOnFromItsCheckpointWithItsAverages) {
  const Recipe recipe = with_steps(cartpole(), 4096);
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
