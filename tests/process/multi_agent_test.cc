// Runs with several agents as several processes: the same numbers as in one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/testing/temporary_folder.h"
#include "training.h"

namespace tandem::process_test {
namespace {

Recipe kuhn_poker() {
  return {"several agents",
          {"--env", "KuhnPoker-v0", "--seed", "5", "--shards", "4", "--num-envs", "8", "--rollout-steps", "32"},
          2048,
          256};
}

TEST(MultiAgentTest, TheSameShardsHaveTheSameStateOnAnyRanks) {
  const TemporaryFolder scratch;
  expect_success(train(kuhn_poker(), scratch / "1", "cpu:1"));
  expect_success(as_ranks(2, train(kuhn_poker(), scratch / "2", "cpu:2")));
  EXPECT_EQ(state_of(scratch / "2"), state_of(scratch / "1"));
  expect_line_for_every_update(scratch / "2");
}

// Killed before the third checkpoint is whole, it goes on from the second one, as other ranks.
TEST(MultiAgentTest, AKilledRunOfRanksGoesOnToTheSameState) {
  const TemporaryFolder scratch;
  const Ended killed =
      run(as_ranks(2, train(kuhn_poker(), scratch / "run", "cpu:1", "checkpoint.before_manifest:3:kill")));
  EXPECT_NE(killed.exit_code, 0);
  expect_success(resume(scratch / "run", "cpu:4"));
  EXPECT_EQ(summary_of(scratch / "run").at("resumed").as_string(), "exactly");
  EXPECT_EQ(state_of(scratch / "run"), uninterrupted_state(kuhn_poker()));
}

}  // namespace
}  // namespace tandem::process_test
