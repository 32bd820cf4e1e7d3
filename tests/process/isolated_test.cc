// Runs whose env groups live in processes of their own (isolate_envs): the same bits, and what becomes of the processes
// when the run ends in any way. Faults of each kind are in tests/isolated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>
#include <thread>

#include "tandem/base/atomic_file.h"
#include "tandem/base/clock.h"
#include "tandem/base/testing/temporary_folder.h"
#include "training.h"

namespace tandem::process_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

Command isolated(Command command) {
  command.arguments.emplace_back("--isolate-envs");
  return command;
}

// Two shards; `at` counts the steps of one process, which makes half of the run's.
Recipe troubled(const std::string& fault, std::int64_t at, int restarts) {
  return {"Troubled",
          {"--plugin",        TROUBLED_PLUGIN,
           "--env",           "Troubled-v0",
           "--env-option",    "fault=" + fault,
           "--env-option",    "at=" + std::to_string(at),
           "--seed",          "11",
           "--shards",        "2",
           "--num-envs",      "8",
           "--rollout-steps", "32",
           "--epochs",        "1",
           "--minibatches",   "1",
           "--set",           "policy.hidden=8",
           "--set",           "env_restarts=" + std::to_string(restarts)},
          4096,
          256};
}

// Processes that have this variable in their environment.
int processes_with(const std::string& variable) {
  int found = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(file), {}};
    if (all.find(variable) != std::string::npos) ++found;
  }
  return found;
}
// Whether all of them end.
bool all_end(const std::string& variable) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(60));
  while (processes_with(variable) > 0) {
    if (deadline.expired()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}
std::string mark() { return "TANDEM_TEST_MARK=" + std::to_string(::getpid()); }

TEST(IsolatedRunTest, HasTheBitsOfOneThatIsNotOnAnyTopology) {
  for (const Recipe& recipe : {with_steps(cartpole(), 2048), with_steps(troubled("none", 1, 0), 2048)}) {
    const std::string state = uninterrupted_state(recipe);
    const TemporaryFolder scratch;
    const bool has_four = recipe.name == "CartPole";
    expect_success(isolated(train(recipe, scratch / "a", has_four ? "cpu:4" : "cpu:2")));
    EXPECT_EQ(state_of(scratch / "a"), state) << recipe.name;
    expect_success(as_ranks(2, isolated(train(recipe, scratch / "b", has_four ? "cpu:2" : "cpu:1"))));
    EXPECT_EQ(state_of(scratch / "b"), state) << recipe.name;
    if (!has_four) continue;
    expect_success(as_ranks(4, isolated(train(recipe, scratch / "c", "cpu:1"))));
    EXPECT_EQ(state_of(scratch / "c"), state) << recipe.name;
  }
}

TEST(IsolatedRunTest, GoesOnExactlyWithAndWithoutItsProcesses) {
  const Recipe recipe = with_steps(cartpole(), 2048);
  const std::string state = uninterrupted_state(recipe);
  for (const bool is_later : {false, true}) {
    const TemporaryFolder scratch;
    const auto folder = scratch / "run";
    Command first = train(recipe, folder, "cpu:2", "checkpoint.after_manifest:2:kill");
    if (!is_later) first = isolated(first);
    first.environment.push_back(mark());
    ASSERT_EQ(run(first).signal, SIGKILL);
    EXPECT_TRUE(all_end(mark()));
    Command second = resume(folder, "cpu:2");
    second.arguments.insert(second.arguments.end(), {"--set", is_later ? "isolate_envs=true" : "isolate_envs=false"});
    expect_success(second);
    EXPECT_EQ(summary_of(folder).at("resumed").as_string(), "exactly");
    EXPECT_EQ(state_of(folder), state);
  }
}

TEST(IsolatedRunTest, GoesOnWhenItsProcessesEnd) {
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  Command command = isolated(train(troubled("_exit", 1500, 2), folder, "cpu:2"));
  command.environment = {mark()};
  expect_success(command);
  EXPECT_TRUE(all_end(mark()));
  EXPECT_THAT(
      read_file(folder / "log.txt"),
      AllOf(ContainsRegex("\\(1 of 2 times\\): the worker process [0-9]+ of 4 environments ended with exit code 0"),
            HasSubstr("(2 of 2 times)")));
}

TEST(IsolatedRunTest, EndsWithCodeThreeAndTheReasonWhenNoRestartIsLeft) {
  for (const auto& [restarts, says] : {std::pair{0, "with env_restarts it would be started again"},
                                       std::pair{1, "which is all that env_restarts allows"}}) {
    const TemporaryFolder scratch;
    const auto folder = scratch / "run";
    const Ended ended = run(isolated(train(troubled("segv", 300, restarts), folder, "cpu:1")));
    EXPECT_EQ(ended.exit_code, 3) << ended.how();
    EXPECT_THAT(ended.err, AllOf(HasSubstr("Troubled-v0: the worker process "), HasSubstr("was killed by SIGSEGV"),
                                 HasSubstr(says)));
    EXPECT_THAT(read_file(folder / "summary.json"), AllOf(HasSubstr(R"("end":"failed")"), HasSubstr("SIGSEGV")));
  }
}

// Each of its processes takes four, and more while it is started.
TEST(IsolatedRunTest, RaisesTheLimitOfOpenFilesForItsProcesses) {
  const TemporaryFolder scratch;
  Command command = isolated(train(with_steps(cartpole(), 512), scratch / "run", "cpu:1"));
  command.prepare = [] {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 28;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  };
  expect_success(command);
}

// A terminal sends it to all processes of the run.
TEST(IsolatedRunTest, CtrlCLeavesACheckpointAndNoProcess) {
  const Recipe recipe = with_steps(cartpole(), 400'000);
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  Command command = isolated(train(recipe, folder, "cpu:1"));
  command.environment = {mark()};
  command.prepare = [] { ::setpgid(0, 0); };
  Child child(command);
  ASSERT_TRUE(reaches_update(child, folder, 3));
  EXPECT_EQ(::kill(-child.id(), SIGINT), 0);
  const Ended ended = child.wait();
  EXPECT_EQ(ended.exit_code, 130) << ended.how() << ended.err;
  EXPECT_TRUE(all_end(mark()));
  expect_inspectable(folder);
}

// The processes cannot see the end of the run themselves: each is inside a step that does not return.
TEST(IsolatedRunTest, ProcessesThatHangEndWithARunThatIsKilled) {
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  Command command = isolated(train(troubled("hang", 300, 0), folder, "cpu:2"));
  command.environment = {mark()};
  Child child(command);
  ASSERT_TRUE(reaches_update(child, folder, 2));
  EXPECT_GE(processes_with(mark()), 2);
  child.signal(SIGKILL);
  (void)child.wait();
  EXPECT_TRUE(all_end(mark()));
}

}  // namespace
}  // namespace tandem::process_test
