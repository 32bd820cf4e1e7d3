// A worker that crashes, ends, hangs, leaks or writes nonsense costs a restart, and never the training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tests/isolated/both.h"

namespace tandem::rl::isolated_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kCount = 3;

Task troubled(const std::string& fault, int at = 8) {
  return {"Troubled-v0", {TROUBLED_PLUGIN}, {{"fault", fault}, {"at", concat(at)}}};
}

// What workers print, with their processes.
struct Heard {
  std::mutex mutex;
  std::multimap<pid_t, std::string> lines;
};

struct Group {
  explicit Group(const std::string& fault, std::int64_t limit = 2, IsolationOptions options = {}) {
    const Task task = troubled(fault);
    options.task = task.isolation().task;
    options.tell = [heard = heard](pid_t process, const std::string& line) {
      const std::lock_guard lock(heard->mutex);
      heard->lines.emplace(process, line);
    };
    stepped.emplace(std::make_unique<IsolatedEnvs>(task.registry().spec(task.env), kCount, options, budget(limit)));
    stepped->reset();
  }
  std::shared_ptr<RestartBudget> budget(std::int64_t limit) {
    if (limit >= 0) restarts = std::make_shared<RestartBudget>(limit);
    return restarts;
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) stepped->step();
  }
  // The first one that has printed something; waits for it.
  [[nodiscard]] pid_t process() const {
    for (;;) {
      const std::lock_guard lock(heard->mutex);
      if (!heard->lines.empty()) return heard->lines.begin()->first;
    }
  }
  [[nodiscard]] const EnvBuffers& shown() const { return stepped->buffers(); }

  const std::shared_ptr<Heard> heard = std::make_shared<Heard>();
  std::shared_ptr<RestartBudget> restarts;
  std::optional<Stepped> stepped;
};

bool has_children() { return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

// The third step of three environments is the one in which the eighth step of the process is made.
void expect_restart(Group& group, const ::testing::Matcher<std::string>& says) {
  group.steps(2);
  std::array<float, kCount> begins{};
  for (std::size_t e = 0; e < kCount; ++e) begins[e] = group.shown().observation<float>(e)[0];
  group.steps(1);
  EXPECT_THAT(group.shown().reward(), Each(0.0));
  EXPECT_THAT(group.shown().terminated(), Each(0));
  EXPECT_THAT(group.shown().truncated(), Each(1));
  for (std::size_t e = 0; e < kCount; ++e) {
    EXPECT_THAT(group.shown().final_observation<float>(e), ElementsAre(begins[e], 2.0F));
    EXPECT_EQ(group.shown().observation<float>(e)[1], 0.0F);
    EXPECT_NE(group.shown().observation<float>(e)[0], begins[e]);
  }
  EXPECT_EQ(group.restarts->used(), 1);
  EXPECT_THAT(group.restarts->take_remarks(), ElementsAre(AllOf(HasSubstr("1 of 2 times"), says)));
  group.steps(2);
  EXPECT_THAT(group.shown().truncated(), Each(0));
  EXPECT_EQ(group.shown().observation<float>(1)[1], 2.0F);
  // The third life, and no fourth.
  const std::string message = message_of<EnvError>([&] { group.steps(4); });
  EXPECT_THAT(message, AllOf(says, HasSubstr("failed 2 times before, which is all that env_restarts allows")));
  group.stepped.reset();
  EXPECT_FALSE(has_children());
}

struct Fault {
  std::string name, says;
};

class WorkerFaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(WorkerFaultTest, CostsARestartUntilNoneIsLeft) {
  Group group(GetParam().name);
  expect_restart(group, HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(Ends, WorkerFaultTest,
                         ::testing::Values(Fault{"segv", "was killed by SIGSEGV in a step"},
                                           Fault{"exit", "ended with exit code 0 in a step"},
                                           Fault{"_exit", "ended with exit code 0 in a step"},
                                           Fault{"kill", "was killed by SIGKILL in a step"},
                                           Fault{"thread", "was killed by SIGABRT in a step"},
                                           Fault{"signals", "was killed by SIGTERM in a step"}),
                         [](const auto& its) { return its.param.name == "_exit" ? "exit_at_once" : its.param.name; });

TEST(WorkerFaultsTest, AStepThatHangsEndsWithTheDeadline) {
  for (const std::string fault : {"hang", "stop"}) {
    Group group(fault, 2, {.deadline = std::chrono::milliseconds(300)});
    expect_restart(group, AllOf(HasSubstr("did not answer for 0.3 s (env_deadline_seconds)"), HasSubstr("in a step")));
  }
}

TEST(WorkerFaultsTest, ALeakEndsAtTheLimitOfMemory) {
  Group group("leak", 2, {.most_memory = 256 << 20});
  expect_restart(group, AllOf(HasSubstr("256 are allowed (env_memory_mb)"), HasSubstr("in a step")));
}

TEST(WorkerFaultsTest, DescriptorsThatAreClosedCostARestart) {
  Group group("close");
  group.steps(3);
  // Its answer may come before its end is seen, which then costs the next step.
  if (group.restarts->used() == 0) group.steps(1);
  EXPECT_EQ(group.restarts->used(), 1);
  EXPECT_THAT(group.shown().truncated(), Each(1));
  group.steps(2);
  EXPECT_THAT(group.restarts->take_remarks(), ElementsAre(HasSubstr("ended with exit code 3 in a step")));
}

TEST(WorkerFaultsTest, WhatItPrintsIsHandedOnAndTheMemoryKeepsItsLength) {
  for (const std::string fault : {"print", "flood", "shorten"}) {
    Group group(fault);
    group.steps(6);
    EXPECT_EQ(group.restarts->used(), 0) << fault;
    group.stepped.reset();  // the rest of the output has been handed on then
    std::size_t bytes = 0;
    std::string all;
    for (const auto& [process, line] : group.heard->lines) {
      bytes += line.size();
      if (bytes < 1000) all += line + "\n";
    }
    if (fault == "print") {
      EXPECT_THAT(all, AllOf(HasSubstr("a line of output"), HasSubstr("a line of errors")));
    }
    if (fault == "flood") {
      EXPECT_EQ(bytes, 5'000'000u);
    }
    if (fault == "shorten") {
      EXPECT_EQ(all, "");
    }
  }
}

TEST(WorkerFaultsTest, WithoutRestartsAFailureIsAnEnvErrorThatSaysHow) {
  Group group("segv", -1);
  EXPECT_THAT(message_of<EnvError>([&] { group.steps(3); }),
              AllOf(HasSubstr("Troubled-v0: the worker process "), HasSubstr("of 3 environments was killed by SIGSEGV"),
                    HasSubstr("with env_restarts it would be started again")));
  group.stepped->reset();  // a new worker
  group.steps(2);
  Group throwing("throw", -1);
  EXPECT_THAT(message_of<EnvError>([&] { throwing.steps(3); }),
              HasSubstr("environment 1 of 3 in step 3 of its episode: the simulator fell over"));
}

TEST(WorkerFaultsTest, WhatItWritesOverTheMemoryIsNotBelieved) {
  Group alone("scribble", -1);
  EXPECT_THAT(message_of<EnvError>([&] { alone.steps(3); }),
              AllOf(HasSubstr("wrote, for environment 0, what its spec does not allow"), HasSubstr("and was killed")));
  // With restarts the worker itself may find some of it, before this side finds the rest.
  Group group("scribble", 9);
  group.steps(5);
  EXPECT_GE(group.restarts->used(), 1);
  EXPECT_THAT(group.restarts->take_remarks(), ::testing::Contains(HasSubstr("what its spec does not allow")));
  EXPECT_EQ(group.shown().observation<float>(0)[1], 2.0F);
}

// A worker that speaks the protocol, and lies in it.
std::string message_about(const std::string& lie, std::shared_ptr<RestartBudget> budget = {}) {
  const Task task{"CartPole-v1"};
  IsolationOptions options = task.isolation();
  options.command = {"/proc/self/exe", "env-liar", lie};
  IsolatedEnvs group(task.registry().spec(task.env), 2, options, std::move(budget));
  EnvBuffers buffers(group);
  return message_of<EnvError>([&] {
    group.reset(seeds(2), buffers.arrays());
    (void)group.save();
  });
}

TEST(WorkerFaultsTest, ALiarIsKilledAndNamed) {
  EXPECT_THAT(message_about("state"), HasSubstr("says that its state has 1152921504606846976 bytes"));
  EXPECT_THAT(message_about("piece"), HasSubstr("handed over a piece of 1099511627776 bytes of a state of 1000"));
  EXPECT_THAT(message_about("nothing"), HasSubstr("handed over a piece of 0 bytes"));
  EXPECT_THAT(message_about("word"), HasSubstr("answered with the word 77, which is no answer in a reset"));
  EXPECT_THAT(message_about("byte"), HasSubstr("handed over a piece of 1 bytes of a state of 1000"));
  EXPECT_THAT(message_about("refused"), HasSubstr("answered with the word 2, which is no answer in a reset"));
  EXPECT_THAT(message_about("unreadable"),
              HasSubstr("answered with the word 3, which is no answer while its environments were saved"));
  EXPECT_LE(message_about("text").size(), 5 * kMostAnswerText);  // as it is printed
  EXPECT_FALSE(has_children());
}

TEST(WorkerFaultsTest, AWorkerThatAsksForEverIsKilled) {
  EXPECT_THAT(message_about("asks"), HasSubstr("asked for a restart, and its task has none"));
  const auto budget = std::make_shared<RestartBudget>(2);
  EXPECT_THAT(message_about("asks", budget), HasSubstr("asked for a restart again after it was refused one"));
  EXPECT_EQ(budget->used(), 2);
}

TEST(WorkerFaultsTest, AWorkerThatCountsFailuresThatWereNoneIsKilled) {
  EXPECT_THAT(message_about("failures", std::make_shared<RestartBudget>(1)),
              HasSubstr("says that environment 0 has failed 5 times; 0 to 1 are known"));
}

// Killed between two steps, as by a system that is short of memory.
TEST(WorkerFaultsTest, AWorkerThatIsLostBetweenStepsIsStartedAgainForASaveWhichIsEmpty) {
  Group group("print");
  group.steps(4);
  ASSERT_EQ(::kill(group.process(), SIGKILL), 0);
  // The episodes that a state would have are not those of which the run has seen the steps.
  for (int saves = 0; saves < 2; ++saves) EXPECT_THAT(group.stepped->group().save(), IsEmpty());
  EXPECT_EQ(group.restarts->used(), 1);
  group.steps(1);
  EXPECT_THAT(group.shown().truncated(), Each(1));
  EXPECT_EQ(group.shown().final_observation<float>(0)[1], 4.0F);
  // From the next step on a run may go on exactly again.
  Group later("none");
  later.stepped->load(group.stepped->group().save());
  EXPECT_EQ(later.shown().observation<float>(0)[0], group.shown().observation<float>(0)[0]);
  later.steps(1);
  group.steps(1);
  EXPECT_EQ(later.shown().observation<float>(2)[1], group.shown().observation<float>(2)[1]);
}

TEST(WorkerFaultsTest, TheFirstStepBehindALoadMayBeLost) {
  Group before("loaded"), group("loaded");
  before.steps(4);
  group.stepped->load(before.stepped->group().save());
  group.steps(1);
  EXPECT_THAT(group.shown().truncated(), Each(1));
  for (std::size_t e = 0; e < kCount; ++e) {
    EXPECT_THAT(group.shown().final_observation<float>(e),
                ElementsAre(before.shown().observation<float>(e)[0], before.shown().observation<float>(e)[1]));
  }
}

// Where an episode begins that follows from `origin`.
float begin_of(const EnvOrigin& origin) {
  const std::unique_ptr<EnvGroup> group = troubled("none").registry().make("Troubled-v0", 1);
  EnvBuffers buffers(*group);
  const std::uint64_t seed = origin.start_seed();
  group->reset(std::span(&seed, 1), buffers.arrays());
  return buffers.observation<float>(0)[0];
}

// Environment 0 throws in the second step, and in the third the process ends: episodes begin as after two failures of
// this environment, and one of the others. Where it throws in the third step, too, nobody can tell any more which did.
TEST(WorkerFaultsTest, AnEpisodeIsNeverBegunTwice) {
  for (const std::string fault : {"early", "late"}) {
    Group group(fault);
    group.steps(3);
    EXPECT_EQ(group.restarts->used(), 2);
    EXPECT_THAT(group.shown().truncated(), Each(1));
    EXPECT_EQ(group.shown().observation<float>(0)[0], begin_of({.seed = seeds(kCount)[0], .failures = 2})) << fault;
    const std::uint64_t of_others = fault == "early" ? 1 : 2;
    for (std::size_t e = 1; e < kCount; ++e) {
      EXPECT_EQ(group.shown().observation<float>(e)[0], begin_of({.seed = seeds(kCount)[e], .failures = of_others}))
          << fault << e;
    }
  }
}

TEST(WorkerFaultsTest, RoundingThatAResetChangesIsPutBack) {
  Group group("rounding");
  group.steps(1);
  EXPECT_THAT(group.shown().reward(), Each(1.0 / 3));
}

TEST(WorkerFaultsTest, ItsDescriptorsAndItsGroupAreItsOwn) {
  Group group("look");
  group.steps(4);
  EXPECT_EQ(group.restarts->used(), 0);
}

// The child has a session of its own, and the socket, of which no end comes.
TEST(WorkerFaultsTest, AChildThatHoldsItsSocketDoesNotHideItsEnd) {
  Group group("held", 2, {.deadline = std::chrono::seconds(20)});
  group.steps(3);
  EXPECT_THAT(group.restarts->take_remarks(), ElementsAre(EndsWith("ended with exit code 0 in a step")));
}

bool is_there(pid_t process) {
  std::ifstream file(concat("/proc/", process, "/stat"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return !text.empty() && text.find(") Z") == std::string::npos && text.find(") X") == std::string::npos;
}

TEST(WorkerFaultsTest, WhatItHasStartedEndsWithIt) {
  Group group("child");
  group.steps(4);
  const pid_t worker = group.process();
  const auto child = static_cast<pid_t>(std::stol(group.heard->lines.begin()->second));
  EXPECT_TRUE(is_there(child));
  group.stepped.reset();
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  while (is_there(child) && !deadline.expired()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(is_there(child));
  EXPECT_FALSE(is_there(worker));
}

TEST(WorkerFaultsTest, EnvironmentsAreDestroyedAtTheEnd) {
  Group group("farewell");
  group.steps(1);
  group.stepped.reset();
  int farewells = 0;
  for (const auto& [process, line] : group.heard->lines) farewells += line == "farewell" ? 1 : 0;
  EXPECT_EQ(farewells, kCount);
  EXPECT_FALSE(has_children());
}

TEST(WorkerFaultsTest, AListenerThatThrowsLosesALine) {
  const Task task = troubled("print");
  IsolationOptions options = task.isolation();
  options.tell = [](pid_t, const std::string&) { throw std::runtime_error("no ear"); };
  Stepped group(std::make_unique<IsolatedEnvs>(task.registry().spec(task.env), kCount, options, nullptr));
  group.reset();
  for (int step = 0; step < 5; ++step) group.step();
  EXPECT_EQ(group.buffers().observation<float>(0)[1], 5.0F);
}

}  // namespace
}  // namespace tandem::rl::isolated_test
