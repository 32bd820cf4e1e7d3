// `tandem train --strategy asynchronous`: it ends, nothing is lost, a checkpoint is whole, and it says what it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/testing/temporary_folder.h"
#include "training.h"

namespace tandem::process_test {
namespace {

using ::testing::HasSubstr;

Command asynchronous(const Command& training, const std::vector<std::string>& settings = {}) {
  return under_strategy("asynchronous", training, settings);
}

void expect_all_applied(const std::filesystem::path& folder, std::size_t replicas) {
  const JsonValue summary = summary_of(folder);
  const auto& work = summary.at("replicas").as_array();
  ASSERT_EQ(work.size(), replicas);
  for (const JsonValue& replica : work) {
    EXPECT_GT(replica.at("gradients").as_int64(), 0);
    EXPECT_EQ(replica.at("gradients").as_int64(), work.front().at("gradients").as_int64());
    EXPECT_EQ(replica.at("dropped").as_int64(), 0);
    EXPECT_GE(replica.at("staleness_max").as_int64(), 0);
  }
}

TEST(AsynchronousTrainingTest, ARunOfSeveralRanksAndReplicasEnds) {
  for (const std::vector<std::string>& settings : {{}, std::vector<std::string>{"asynchronous.wait_for_slower=1"}}) {
    const TemporaryFolder scratch;
    const auto folder = scratch / "run";
    expect_success(as_ranks(2, asynchronous(train(with_steps(pendulum(), 4096), folder, "cpu:2"), settings)));
    expect_all_applied(folder, 4);
    expect_line_for_every_update(folder);
    expect_inspectable(folder);
  }
}

TEST(AsynchronousTrainingTest, AKilledRunGoesOnFromItsCheckpointAndSaysThatItsNumbersAreOthers) {
  const Recipe recipe = with_steps(cartpole(), 4096);
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  const Ended killed =
      run(as_ranks(2, asynchronous(train(recipe, folder, "cpu:1", "checkpoint.before_manifest:3:kill"))));
  EXPECT_NE(killed.exit_code, 0);
  expect_success(resume(folder, "cpu:2"));
  EXPECT_EQ(summary_of(folder).at("resumed").as_string(), "inexactly");
  expect_line_for_every_update(folder);
}

TEST(AsynchronousTrainingTest, BothBoundsAtOnceAreRefused) {
  const TemporaryFolder scratch;
  const Ended ended = run(asynchronous(train(cartpole(), scratch / "run", "cpu:2"),
                                       {"asynchronous.drop_staler=3", "asynchronous.wait_for_slower=3"}));
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("asynchronous."));
}

}  // namespace
}  // namespace tandem::process_test
