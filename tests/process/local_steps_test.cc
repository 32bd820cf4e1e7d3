// `tandem train --strategy local_steps`, and a loop of one's own whose ranks are killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "faults.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "training.h"

namespace tandem::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class LocalStepsTrainingTest : public ::testing::TestWithParam<std::vector<std::string>> {
 protected:
  static Command local_steps(const Command& training) { return under_strategy("local_steps", training, GetParam()); }
};

// Two replicas as two threads or two processes; a run that was killed and goes on the other way.
TEST_P(LocalStepsTrainingTest, ARunHasOneStateOnAnyTopologyOfAsManyReplicasAlsoWhenItIsResumed) {
  const Recipe recipe = with_steps(pendulum(), 4096);
  std::vector<std::string> states;
  for (const auto& [ranks, devices] : {Topology{1, "cpu:2"}, Topology{2, "cpu:1"}}) {
    const TemporaryFolder scratch;
    const Command command = local_steps(train(recipe, scratch / "run", devices));
    expect_success(ranks == 1 ? command : as_ranks(ranks, command));
    states.push_back(state_of(scratch / "run"));
    expect_inspectable(scratch / "run");
  }
  EXPECT_EQ(states[1], states[0]);
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  EXPECT_NE(
      run(as_ranks(2, local_steps(train(recipe, folder, "cpu:1", "checkpoint.before_manifest:3:kill")))).exit_code, 0);
  expect_success(resume(folder, "cpu:2"));
  EXPECT_EQ(summary_of(folder).at("resumed").as_string(), "exactly");
  EXPECT_EQ(state_of(folder), states[0]);
}

INSTANTIATE_TEST_SUITE_P(Kinds, LocalStepsTrainingTest,
                         ::testing::Values(std::vector<std::string>{"local_steps.every=3"},
                                           std::vector<std::string>{"local_steps.every=4", "local_steps.outer=nesterov",
                                                                    "local_steps.fragments=2", "local_steps.overlap=1"},
                                           std::vector<std::string>{"local_steps.every=3", "local_steps.wire=int4"}),
                         [](const auto& chosen) {
                           return std::string(chosen.index == 0   ? "Average"
                                              : chosen.index == 1 ? "NesterovInFragments"
                                                                  : "InFourBits");
                         });

TEST(LocalStepsRunTest, AResumeOnAnotherNumberOfReplicasSaysThatItsNumbersAreOthers) {
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  EXPECT_NE(run(under_strategy("local_steps", train(with_steps(cartpole(), 4096), folder, "cpu:2",
                                                    "checkpoint.before_manifest:3:kill")))
                .exit_code,
            0);
  const Ended ended = run(resume(folder, "cpu:1"));
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  std::ifstream log(folder / "log.txt");
  const std::string lines{std::istreambuf_iterator<char>(log), std::istreambuf_iterator<char>()};
  EXPECT_THAT(lines, HasSubstr("replicas was 2 and is 1 now"));
  EXPECT_EQ(summary_of(folder).at("resumed").as_string(), "inexactly");
}

TEST(LocalStepsRunTest, OptionsThatDoNotFitAreToldTogether) {
  const TemporaryFolder scratch;
  const Ended ended = run(under_strategy("local_steps", train(cartpole(), scratch / "run", "cpu:2"),
                                         {"local_steps.every=4", "local_steps.fragments=2", "local_steps.overlap=2",
                                          "local_steps.wire=int8", "local_steps.outer_lr=0.5"}));
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err,
              AllOf(HasSubstr("local_steps.overlap = 2 (--set): is 2 steps, and the next exchange begins after 2"),
                    HasSubstr("is for wire: full"), HasSubstr("local_steps.outer_lr")));
  for (const std::string algo : {"impala", "dd_ppo"}) {
    const Ended refused = run(tandem({"train", "--algo", algo, "--env", "CartPole-v1", "--strategy", "local_steps",
                                      "--devices", "cpu:2", "--run-dir", (scratch / algo).string()}));
    EXPECT_EQ(refused.exit_code, 2) << algo;
    EXPECT_THAT(refused.err, HasSubstr("strategy")) << algo;
  }
}

// Three of four ranks are killed, one after the other; each is started again and joins. All end alike.
TEST(LocalStepsRunTest, RanksThatAreKilledAreMissedAndTheirReplacementsJoin) {
  Child launcher(
      {TANDEM_PROGRAM, {"launch", "--ranks", "4", "--on-death", "replace", "--", LOCAL_STEPS_PROGRAM, "900", "10"}});
  Dice dice(7);
  int killed = 0;
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2000) + dice.within(std::chrono::milliseconds(500)));
    const pid_t rank = process_of(launcher, dice.below(4));
    killed += rank != 0 && ::kill(rank, SIGKILL) == 0 ? 1 : 0;
  }
  const Ended ended = launcher.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(killed, 3);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("is lost: died: SIGKILL"), HasSubstr(" joins")));
  // "rank 0 of 4 at step 900: finished with error 0.01"
  std::vector<std::string> errors;
  for (std::size_t at = ended.out.find("finished with error"); at != std::string::npos;
       at = ended.out.find("finished with error", at + 1)) {
    errors.push_back(ended.out.substr(at, ended.out.find('\n', at) - at));
  }
  EXPECT_EQ(errors.size(), 4U) << ended.out << ended.err;
  for (const std::string& error : errors) EXPECT_EQ(error, errors.front());
  EXPECT_LT(std::stod(errors.front().substr(20)), 0.1);
}

}  // namespace
}  // namespace tandem::process_test
