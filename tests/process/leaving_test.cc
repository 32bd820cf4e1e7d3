// A plugin that takes the process for its own (leaving.cc): the run goes on as it would without, or it fails in words
// that name the plugin. Success is said, and never inferred from exit code 0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "tandem/base/atomic_file.h"
#include "tandem/base/testing/temporary_folder.h"
#include "training.h"

namespace tandem::process_test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

Recipe leaving() {
  return {"Leaving",
          {"--plugin", LEAVING_PLUGIN, "--env", "Leaving-v0", "--seed", "11", "--shards", "2", "--num-envs", "8",
           "--rollout-steps", "64", "--epochs", "1", "--minibatches", "1", "--set", "policy.hidden=8"},
          8192,
          512};
}

class LeavingTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path folder() const { return scratch_ / "run"; }
  // A run whose plugin does `bad` in the third update or the sixth.
  [[nodiscard]] Command bad_run(const std::string& bad, const std::vector<std::string>& more = {}) const {
    Command command = train(leaving(), folder(), "cpu:1");
    command.arguments.insert(command.arguments.end(), more.begin(), more.end());
    command.environment = {"BAD=" + bad};
    return command;
  }
  [[nodiscard]] std::string status() const { return read_file(folder() / "status.json"); }

  const TemporaryFolder scratch_;
};

TEST_F(LeavingTest, ExitInAPluginIsAFailureThatNamesIt) {
  const Ended ended = run(bad_run("exit"));
  EXPECT_EQ(ended.exit_code, 3) << ended.how();
  EXPECT_THAT(ended.err, ContainsRegex("tandem: failed: the library .*leaving.so called exit\\(0\\)"));
  EXPECT_THAT(read_file(folder() / "summary.json"), AllOf(HasSubstr(R"("end":"failed")"), HasSubstr("leaving.so"),
                                                          HasSubstr("lost are the updates after 4")));
  EXPECT_THAT(status(), HasSubstr(R"("state":"failed")"));
  EXPECT_THAT(read_file(folder() / "log.txt"), HasSubstr("leaving.so called exit(0)"));
  expect_success(resume(folder(), "cpu:1"));
}

TEST_F(LeavingTest, ExitOnOneRankIsToldToTheOthers) {
  Command command = bad_run("exit", {"--ranks", "2"});
  command.environment.emplace_back("BAD_RANK=1");
  const Ended ended = run(command);
  EXPECT_EQ(ended.exit_code, 3) << ended.how();
  EXPECT_THAT(ended.err, AllOf(HasSubstr("the run failed: first, rank 1 ended with exit code 3"),
                               ContainsRegex("rank 1, which [^\n]*leaving.so called exit\\(0\\)")));
  EXPECT_THAT(status(), HasSubstr(R"("state":"failed")"));
}

TEST_F(LeavingTest, AThreadOfAPluginThatThrowsIsAFailureThatNamesIt) {
  const Ended ended = run(bad_run("throw"));
  EXPECT_EQ(ended.exit_code, 3) << ended.how();
  EXPECT_THAT(ended.err, ContainsRegex("from the library .*leaving.so: the simulator's own thread fell over"));
  EXPECT_THAT(status(), HasSubstr(R"("state":"failed")"));
}

// Nothing in the process can see it, but its launcher can.
TEST_F(LeavingTest, CodeZeroOfARankThatWasNotDoneIsAFailure) {
  const Ended ended = run(bad_run("_exit", {"--ranks", "2"}));
  EXPECT_EQ(ended.exit_code, 3) << ended.how();
  EXPECT_THAT(ended.err, HasSubstr("ended with exit code 0 in the middle of its work"));
}

// Each life gets four updates further, and the fourth makes the last ones.
TEST_F(LeavingTest, ARankThatWasNotDoneIsStartedAgain) {
  const Ended ended = run(as_ranks(1, bad_run("_exit", {"--resume", "auto"}), {"--on-death", "replace"}));
  EXPECT_EQ(ended.exit_code, 0) << ended.how() << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("in the middle of its work"));
  EXPECT_THAT(ended.err, HasSubstr("started again (3 of 3 times)"));
  EXPECT_EQ(summary_of(folder()).at("end").as_string(), "finished");
}

// Without a launcher the next look at the run tells.
TEST_F(LeavingTest, ARunThatEndedWithoutAWordIsSeenAsThat) {
  EXPECT_EQ(run(bad_run("_exit")).exit_code, 0);
  EXPECT_THAT(run(tandem({"inspect", folder().string()})).out, HasSubstr("ended without a word"));
  const Ended resumed = run(resume(folder(), "cpu:1"));
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("ended without a word"));
}

// A relative run folder, so that the current one matters.
TEST_F(LeavingTest, WhatAPluginDoesToTheProcessChangesNoNumber) {
  std::string undisturbed;
  for (const std::string bad : {"", "chdir", "round", "locale", "close012"}) {
    SCOPED_TRACE(bad);
    Command command = train(leaving(), "run" + bad, "cpu:1");
    command.environment = {"BAD=" + bad};
    command.folder = scratch_.path();
    const Ended ended = run(command);
    const auto there = scratch_ / ("run" + bad);
    ASSERT_EQ(ended.exit_code, 0) << ended.err << ended.out;
    expect_line_for_every_update(there);
    if (bad.empty()) undisturbed = state_of(there);
    EXPECT_EQ(state_of(there), undisturbed);
    const std::string log = read_file(there / "log.txt");
    EXPECT_EQ(log.find("rounds numbers") != std::string::npos, bad == "round");
    EXPECT_EQ(log.find("closed 3 of its standard streams") != std::string::npos, bad == "close012");
    EXPECT_TRUE(std::filesystem::exists(there / "curve.png"));
  }
}

// Ports and counts go from rank to rank as text.
TEST_F(LeavingTest, RanksMeetInAnyLocale) {
  std::string undisturbed;
  for (const std::string bad : {"", "early_locale"}) {
    Command command = train(leaving(), scratch_ / ("run" + bad), "cpu:1");
    command.arguments.insert(command.arguments.end(), {"--ranks", "2", "--backend", "tcp"});
    command.environment = {"BAD=" + bad};
    expect_success(command);
    if (bad.empty()) undisturbed = state_of(scratch_ / "run");
    EXPECT_EQ(state_of(scratch_ / ("run" + bad)), undisturbed);
  }
  Command command = under_strategy("sync_replicas", train(leaving(), scratch_ / "served", "cpu:1"));
  command.arguments.insert(command.arguments.end(), {"--ranks", "2"});
  command.environment = {"BAD=early_locale"};
  expect_success(command);
}

TEST_F(LeavingTest, ARunCanBeStoppedThoughAPluginIgnoresTheSignal) {
  Command command = train(with_steps(leaving(), 1'000'000'000), folder(), "cpu:1");
  command.environment = {"BAD=signals"};
  Child child(command);
  ASSERT_TRUE(reaches_update(child, folder(), 8));
  child.signal(SIGTERM);
  EXPECT_EQ(child.wait().how(), "exit code 130");
  EXPECT_THAT(read_file(folder() / "log.txt"), HasSubstr("a library of this process took SIGTERM for itself"));
}

TEST_F(LeavingTest, NothingIsWrittenIntoTheFileThatTookADescriptor) {
  const auto foreign = scratch_ / "foreign";
  Command command = bad_run("closemetrics");
  command.environment.push_back("FOREIGN=" + foreign.string());
  const Ended ended = run(command);
  EXPECT_EQ(ended.exit_code, 3) << ended.how();
  EXPECT_THAT(ended.err, ContainsRegex("cannot append to .*metrics.jsonl: its descriptor [0-9]+ was closed by"));
  EXPECT_EQ(read_file(foreign), "");
  EXPECT_THAT(status(), HasSubstr(R"("state":"failed")"));
}

}  // namespace
}  // namespace tandem::process_test
