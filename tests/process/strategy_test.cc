// Whichever strategy updates the parameters, a run has the same state.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tandem/base/testing/temporary_folder.h"
#include "training.h"

namespace tandem::process_test {
namespace {

Command with(Command command, const std::vector<std::string>& more) {
  command.arguments.insert(command.arguments.end(), more.begin(), more.end());
  return command;
}

class StrategyTest : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(StrategyTest, ARunHasTheStateOfReplicatedOnAnyReplicasAndRanks) {
  const Recipe recipe = with_steps(cartpole(), 4096);
  const std::string expected = uninterrupted_state(recipe);
  for (const auto& [ranks, devices] :
       {Topology{1, "cpu:1"}, Topology{1, "cpu:2"}, Topology{2, "cpu:1"}, Topology{2, "cpu:2"}, Topology{3, "cpu:1"}}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks on " + devices);
    const TemporaryFolder scratch;
    const Command command = with(train(recipe, scratch / "run", devices), GetParam());
    expect_success(ranks == 1 ? command : as_ranks(ranks, command));
    EXPECT_EQ(state_of(scratch / "run"), expected);
  }
}

// Killed while it writes a checkpoint, on two ranks; then the same as one process; then to the end as replicated.
TEST_P(StrategyTest, ARunGoesOnExactlyUnderAnotherStrategyAndOnOtherReplicas) {
  const Recipe recipe = with_steps(pendulum(), 4096);
  const std::string fault = "checkpoint.before_manifest:3:kill";
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  EXPECT_NE(run(as_ranks(2, with(train(recipe, folder, "cpu:2", fault), GetParam()))).exit_code, 0);
  EXPECT_NE(run(resume(folder, "cpu:3", fault)).exit_code, 0);
  expect_success(as_ranks(2, with(resume(folder, "cpu:1"), {"--strategy", "replicated"})));
  EXPECT_EQ(summary_of(folder).at("resumed").as_string(), "exactly");
  EXPECT_EQ(state_of(folder), uninterrupted_state(recipe));
}

INSTANTIATE_TEST_SUITE_P(Strategies, StrategyTest,
                         ::testing::Values(std::vector<std::string>{"--strategy", "divided"},
                                           std::vector<std::string>{"--strategy", "sync_replicas"},
                                           std::vector<std::string>{"--strategy", "parameter_server"},
                                           std::vector<std::string>{"--strategy", "parameter_server", "--set",
                                                                    "parameter_server.servers=first"}),
                         [](const auto& chosen) {
                           return std::string(chosen.index == 0   ? "Divided"
                                              : chosen.index == 1 ? "FirstToCome"
                                              : chosen.index == 2 ? "Served"
                                                                  : "ServedByOne");
                         });

}  // namespace
}  // namespace tandem::process_test
