// Python environments in workers of a real Python: what they are told to be, and what becomes of those that fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <ostream>

#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/isolated/isolated_envs.h"
#include "tandem/rl/env/python/python_envs.h"

namespace tandem::rl {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kCount = 3;

bool has_children() { return ::waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

EnvOptionTexts with_python(EnvOptionTexts options) {
  options.emplace_back(kInterpreterOption, TEST_PYTHON);
  return options;
}

struct Heard {
  std::mutex mutex;
  std::string text;
  std::size_t bytes = 0;
};

IsolationOptions listening(std::shared_ptr<Heard> heard) {
  return {.tell = [heard = std::move(heard)](pid_t, const std::string& line) {
    const std::lock_guard lock(heard->mutex);
    heard->bytes += line.size();
    if (heard->text.size() < 10'000) heard->text += line + "\n";
  }};
}

EnvRegistry registry_with(const std::string& id, const EnvOptionTexts& options, IsolationOptions isolation = {}) {
  EnvRegistry known;
  for (EnvKind& kind : python_kinds(isolation)) known.add_kind(std::move(kind));
  known.set_options(id, with_python(options));
  return known;
}

const Leaf& leaf_named(const Spec& spec, const std::string& name) {
  for (const Leaf& leaf : spec.observation) {
    if (leaf.name == name) return leaf;
  }
  throw std::runtime_error("no leaf " + name);
}

TEST(PythonSpecTest, SpacesOfAllTypesAreToldByTheirPaths) {
  const std::string id = "gymnasium:spaces_env:Nested-v0";
  const Spec spec = registry_with(id, {}).spec(id);
  EXPECT_EQ(joined(spec.observation, [](const Leaf& leaf) { return describe(leaf); }),
            "flags uint8[4], near/left int64[], near/speed float64[2], pair/0 int64[2], pair/1 float32[], "
            "pixels uint8[2, 3], seen uint8[3]");
  EXPECT_THAT(leaf_named(spec, "near/left").low, ElementsAre(-2));
  EXPECT_THAT(leaf_named(spec, "near/left").high, ElementsAre(2));
  EXPECT_THAT(leaf_named(spec, "pair/0").high, ElementsAre(3, 3));
  EXPECT_THAT(leaf_named(spec, "near/speed").low, ElementsAre());
  EXPECT_THAT(leaf_named(spec, "seen").high, ElementsAre(1, 1, 1));
  EXPECT_EQ(describe(spec.action), "MultiDiscrete(3, 4)");
  EXPECT_EQ(spec.max_episode_steps, 15);
  const Spec pole = registry_with("gymnasium:CartPole-v1", {}).spec("gymnasium:CartPole-v1");
  EXPECT_EQ(pole.reward_threshold, 475.0);
  EXPECT_EQ(pole.render_fps, 50.0);
}

// MountainCar of both has the same bits, so wrappers around it show the same; and the environments stay in one worker.
TEST(PythonWrappersTest, ShowWhatTheyShowAroundTandemsOwn) {
  const std::vector<std::string> wrappers{"sticky_actions=0.2", "frame_skip=3", "time_limit=25", "frame_stack=2"};
  const std::string id = "gymnasium:MountainCar-v0";
  EnvRegistry theirs = registry_with(id, {}), ours = EnvRegistry::native();
  theirs.set_wrappers(id, wrappers);
  ours.set_wrappers("MountainCar-v0", wrappers);
  const auto python = theirs.make(id, kCount), native = ours.make("MountainCar-v0", kCount);
  EXPECT_NE(stepped_by_row(*python), nullptr);
  EnvBuffers seen(*python), expected(*native);
  const std::vector<std::uint64_t> seeds{3, 4, 5};
  python->reset(seeds, seen.arrays());
  native->reset(seeds, expected.arrays());
  int ends = 0;
  for (int step = 0; step < 120; ++step) {
    std::vector<std::int64_t> actions;
    for (int e = 0; e < kCount; ++e) actions.push_back((step / (3 + e)) % 3);
    python->step({.discrete = actions.data()}, seen.arrays());
    native->step({.discrete = actions.data()}, expected.arrays());
    for (std::size_t e = 0; e < kCount; ++e) {
      ASSERT_THAT(seen.observation<float>(e), ::testing::ElementsAreArray(expected.observation<float>(e)))
          << "step " << step << ", environment " << e;
      ASSERT_EQ(seen.reward()[e], expected.reward()[e]);
      ASSERT_EQ(seen.truncated()[e], expected.truncated()[e]);
      if (seen.truncated()[e] == 0) continue;
      ++ends;
      ASSERT_THAT(seen.final_observation<float>(e), ::testing::ElementsAreArray(expected.final_observation<float>(e)));
    }
  }
  EXPECT_GT(ends, 9);
}

// Each environment would be in a process of its own.
TEST(PythonWrappersTest, ThatStepByRowsAreRefusedAroundEnvironmentsThatStepAsOne) {
  const std::string id = "gymnasium:spaces_env:Nested-v0";
  const std::vector<std::string> wrappers{"reward_scale=2", "time_limit=3"};
  EnvRegistry together = registry_with(id, {});
  EXPECT_THAT(message_of<ConfigError>([&] { together.set_wrappers(id, wrappers); }),
              AllOf(HasSubstr("time_limit=3: gymnasium:spaces_env:Nested-v0 steps all environments"),
                    HasSubstr("python.vectorization=loop")));
  EXPECT_NO_THROW(registry_with(id, {}).set_wrappers(id, {"reward_scale=2"}));
  EXPECT_NO_THROW(registry_with(id, {{"python.vectorization", "loop"}}).set_wrappers(id, wrappers));
  EXPECT_THAT(message_of<ConfigError>([&] { registry_with("ALE/Pong-v5", {}).set_wrappers("ALE/Pong-v5", wrappers); }),
              HasSubstr("set --env-option frameskip=N or max_num_frames_per_episode=N"));
}

TEST(PythonSpecTest, WhatHasNoArraysIsRefusedByItsName) {
  EXPECT_THAT(message_of<ConfigError>([] { (void)registry_with("gymnasium:spaces_env:Worded-v0", {}); }),
              AllOf(HasSubstr("gymnasium:spaces_env:Worded-v0"), HasSubstr("'way/0' is a Text space")));
  EXPECT_THAT(message_of<ConfigError>([] { (void)registry_with("gymnasium:spaces_env:Parted-v0", {}); }),
              HasSubstr("the action space is Dict('a': Discrete(2))"));
}

TEST(PythonSpecTest, WhatIsNotThereIsAMistakeOfTheUsers) {
  const auto fault_of = [](const std::string& id, const EnvOptionTexts& options = {}) {
    return message_of<ConfigError>([&] { (void)registry_with(id, options); });
  };
  EXPECT_THAT(fault_of("gymnasium:Nowhere-v0"), HasSubstr("has no such environment"));
  EXPECT_THAT(fault_of("gymnasium:no_such_module:Nowhere-v0"), HasSubstr("cannot import 'no_such_module'"));
  EXPECT_THAT(fault_of("gymnasium:CartPole-v1", {{"wind", "3"}}), HasSubstr("unexpected keyword argument 'wind'"));
  EXPECT_THAT(fault_of("gymnasium:CartPole-v1", {{"python.wings", "3"}}), HasSubstr("no option 'python.wings'"));
  EXPECT_THAT(fault_of("gymnasium:CartPole-v1", {{"python.wrappers", "nowhere:Wrapper"}}),
              HasSubstr("there is no 'nowhere:Wrapper'"));
  EXPECT_THAT(fault_of("gymnasium:CartPole-v1", {{"python.wrappers", "broken_env:Wrapper"}}),
              HasSubstr("there is no 'broken_env:Wrapper' in this Python: RuntimeError: made for another simulator"));
  EXPECT_THAT(fault_of("gymnasium:CartPole-v1", {{"python.wrappers", "7"}}),
              HasSubstr("python.wrappers is 7; it is module:Class, or a JSON list of such"));
  EXPECT_THAT(fault_of("gymnasium:CartPole-v1", {{"python.wrappers", "[[1]]"}}), HasSubstr("a JSON list of such"));
  EXPECT_THAT(fault_of("gymnasium:CartPole-v1", {{"render_mode", "a"}, {"render_mode", "b"}}),
              HasSubstr("render_mode=b: render_mode is set twice"));
  EXPECT_THAT(fault_of("gymnasium:CartPole-v1", {{kMemoryOption, "much"}}), HasSubstr("takes a number from 0"));
  EXPECT_THAT(fault_of("gymnasium:troubled_env:Troubled-v0", {{"fault", "constructor"}}),
              AllOf(HasSubstr("RuntimeError: no licence was found"), HasSubstr("in __init__")));
}

TEST(PythonSpecTest, APythonThatCannotServeIsNamed) {
  const auto fault_of = [](const std::string& python) {
    EnvRegistry known;
    for (EnvKind& kind : python_kinds({})) known.add_kind(std::move(kind));
    return message_of<ConfigError>([&] { known.set_options("gymnasium:CartPole-v1", {{kInterpreterOption, python}}); });
  };
  EXPECT_THAT(fault_of("/nowhere/python3"), HasSubstr("'/nowhere/python3' cannot be started: No such file"));
  EXPECT_THAT(fault_of("/bin/true"), AllOf(HasSubstr("ended with exit code 0"), HasSubstr("is /bin/true a Python")));
  // That of the system has no packages of ours.
  EXPECT_THAT(fault_of("/usr/bin/python3"), HasSubstr("-m pip install 'gymnasium>=1.0'"));
}

// Whoever can put a file into the folder would choose what a worker runs.
TEST(PythonSpecTest, AFileOfTheCurrentFolderTakesNoPackagesPlace) {
  const TemporaryFolder folder;
  for (const char* name : {"inspect.py", "socket.py", "numpy.py"})
    write_file(folder.path() / name, "import os; os._exit(7)\n");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  EXPECT_NO_THROW((void)registry_with("gymnasium:CartPole-v1", {}));
  std::filesystem::current_path(before);
}

constexpr const char* kTroubled = "gymnasium:troubled_env:Troubled-v0";

// Asked once.
const Spec& troubled_spec() {
  static const Spec spec = registry_with(kTroubled, {}).spec(kTroubled);
  return spec;
}

// A group of Troubled-v0, whose third step of three environments is the one in which the eighth of the process is made.
class Group {
 public:
  explicit Group(const std::string& fault, std::int64_t limit = 2, IsolationOptions isolation = {}) {
    isolation.tell = listening(heard).tell;
    isolation = python_isolation(isolation, kTroubled, with_python({{"fault", fault}, {"at", "8"}}));
    if (limit >= 0) restarts = std::make_shared<RestartBudget>(limit);
    group_ = std::make_unique<IsolatedEnvs>(troubled_spec(), kCount, isolation, restarts);
    buffers_.emplace(*group_);
    group_->reset(kSeeds, buffers_->arrays());
  }
  void steps(int count) {
    const std::vector<std::int64_t> actions(kCount, 1);
    for (int i = 0; i < count; ++i) group_->step({.discrete = actions.data()}, buffers_->arrays());
  }
  void end() { group_.reset(); }
  [[nodiscard]] const EnvBuffers& shown() const { return *buffers_; }
  [[nodiscard]] float begin(std::size_t env) const { return shown().observation<float>(env)[0]; }

  static constexpr std::array<std::uint64_t, kCount> kSeeds{5, 6, 7};
  const std::shared_ptr<Heard> heard = std::make_shared<Heard>();
  std::shared_ptr<RestartBudget> restarts;

 private:
  std::unique_ptr<EnvGroup> group_;
  std::optional<EnvBuffers> buffers_;
};

// Where an episode begins that follows from this seed.
float begin_of(std::uint64_t seed) {
  IsolatedEnvs group(troubled_spec(), 1, python_isolation({}, kTroubled, with_python({})), nullptr);
  EnvBuffers buffers(group);
  group.reset(std::span(&seed, 1), buffers.arrays());
  return buffers.observation<float>(0)[0];
}

// Only where nothing else ends the wait is the deadline a short one: a machine that is busy takes seconds for the rest.
struct Fault {
  std::string name, says;
  std::chrono::milliseconds deadline = std::chrono::seconds(60);
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

class LostWorkerTest : public ::testing::TestWithParam<Fault> {};

TEST_P(LostWorkerTest, CostsTheEpisodesOfItsGroup) {
  Group group(GetParam().name, 1, {.deadline = GetParam().deadline, .most_memory = std::uint64_t{400} << 20});
  group.steps(2);
  const float before = group.begin(1);
  group.steps(1);
  EXPECT_THAT(group.shown().reward(), Each(0.0));
  EXPECT_THAT(group.shown().truncated(), Each(1));
  EXPECT_THAT(group.shown().final_observation<float>(1), ElementsAre(before, 2.0F));
  EXPECT_EQ(group.shown().observation<float>(1)[1], 0.0F);
  EXPECT_EQ(group.restarts->used(), 1);
  EXPECT_THAT(group.restarts->take_remarks(), ElementsAre(HasSubstr(GetParam().says)));
  group.steps(2);
  EXPECT_THAT(group.shown().truncated(), Each(0));
  group.end();
  EXPECT_FALSE(has_children());
}

INSTANTIATE_TEST_SUITE_P(
    Ends, LostWorkerTest,
    ::testing::Values(Fault{"os_exit", "ended with exit code 0 in a step"},
                      Fault{"kill", "was killed by SIGKILL in a step"},
                      Fault{"abort", "was killed by SIGABRT in a step"},
                      Fault{"hang", "did not answer for 1.5 s (env_deadline_seconds)", std::chrono::milliseconds(1500)},
                      Fault{"stop", "did not answer for 1.5 s (env_deadline_seconds)", std::chrono::milliseconds(1500)},
                      Fault{"leak", "400 are allowed (env_memory_mb)"},
                      Fault{"nan", "element 0 of its observation leaf 'obs' is nan"},
                      Fault{"infinite", "element 1 of its observation leaf 'obs' is inf"},
                      Fault{"nan_reward", "its reward is nan"}),
    [](const auto& its) { return its.param.name; });

class FailedEnvTest : public ::testing::TestWithParam<Fault> {};

// The eighth step is that of environment 1, which alone is made anew.
TEST_P(FailedEnvTest, IsMadeAnewAlone) {
  Group group(GetParam().name, 1);
  group.steps(3);
  EXPECT_THAT(group.shown().truncated(), ElementsAre(0, 1, 0));
  EXPECT_THAT(group.shown().reward(), ElementsAre(1.0, 0.0, 1.0));
  EXPECT_EQ(group.shown().final_observation<float>(1)[1], 2.0F);
  const EnvOrigin origin{.seed = Group::kSeeds[1], .failures = 1};
  EXPECT_EQ(group.begin(1), begin_of(origin.start_seed()));
  EXPECT_THAT(group.restarts->take_remarks(),
              ElementsAre(AllOf(HasSubstr("environment 1 of 3 in step 3 of its episode"), HasSubstr(GetParam().says),
                                HasSubstr("Traceback (most recent call last)"))));
  group.steps(1);
  EXPECT_EQ(group.shown().observation<float>(0)[1], 4.0F);
  EXPECT_EQ(group.shown().observation<float>(1)[1], 1.0F);
}

INSTANTIATE_TEST_SUITE_P(Failures, FailedEnvTest,
                         ::testing::Values(Fault{"raise", "RuntimeError: the simulator fell over"},
                                           Fault{"exit", "SystemExit: the simulator is done"},
                                           Fault{"shape", "'obs' has shape [3], and its space says [2]"},
                                           Fault{"dtype", "'obs' is of type complex128, and its space says float32"},
                                           Fault{"object", "'obs' has shape [], and its space says [2]"},
                                           Fault{"reward", "could not convert string to float: 'a lot'"}),
                         [](const auto& its) { return its.param.name; });

TEST(PythonFaultsTest, WithoutRestartsAFailureEndsTheRunWithItsTraceback) {
  Group group("raise", -1);
  EXPECT_THAT(message_of<EnvError>([&] { group.steps(3); }),
              AllOf(HasSubstr("gymnasium:troubled_env:Troubled-v0: environment 1 of 3 in step 3 of its episode: "
                              "RuntimeError: the simulator fell over"),
                    HasSubstr("in do_raise")));
  Group once("raise", 0);
  EXPECT_THAT(message_of<EnvError>([&] { once.steps(3); }),
              HasSubstr("failed 0 times before, which is all that env_restarts allows"));
}

TEST(PythonFaultsTest, WhatItPrintsIsHandedOn) {
  Group talker("print");
  talker.steps(5);
  talker.end();
  EXPECT_THAT(talker.heard->text, AllOf(HasSubstr("a line of output"), HasSubstr("a line of errors")));
  Group flooding("flood");
  flooding.steps(5);
  flooding.end();
  EXPECT_EQ(flooding.heard->bytes, 20'000U * 999);
  EXPECT_EQ(flooding.restarts->used(), 0);
}

// The second process is refused by its constructor, as by one that finds what the first one held.
TEST(PythonFaultsTest, ARefusalAfterARestartIsOneMoreFailure) {
  Group group("port", 2);
  group.steps(3);
  EXPECT_THAT(group.shown().truncated(), Each(1));
  EXPECT_THAT(group.restarts->take_remarks(),
              ElementsAre(HasSubstr("ended with exit code 0 in a step"), HasSubstr("OSError: the port is in use")));
  group.steps(2);
  EXPECT_THAT(group.shown().truncated(), Each(0));
  Group once("port", 1);
  EXPECT_THAT(message_of<EnvError>([&] { once.steps(3); }),
              AllOf(HasSubstr("the port is in use"), HasSubstr("failed 1 times before")));
}

TEST(PythonFaultsTest, LimitsAreThoseOfEveryWorker) {
  const EnvOptionTexts leaks{{"fault", "leaking_constructor"}, {kMemoryOption, "400"}};
  EXPECT_THAT(message_of<ConfigError>([&] { (void)registry_with(kTroubled, leaks); }),
              HasSubstr("400 are allowed (env_memory_mb)"));
  const EnvOptionTexts hangs{{"fault", "hang"}, {"at", "1"}, {kDeadlineOption, "1.5"}};
  const auto group = registry_with(kTroubled, hangs).make(kTroubled, 1);
  EnvBuffers shown(*group);
  const std::uint64_t seed = 5;
  const std::int64_t action = 1;
  group->reset(std::span(&seed, 1), shown.arrays());
  EXPECT_THAT(message_of<EnvError>([&] { group->step({.discrete = &action}, shown.arrays()); }),
              HasSubstr("did not answer for 1.5 s (env_deadline_seconds)"));
}

// They do not inherit that the worker is deaf to signals.
TEST(PythonFaultsTest, WhatItStartsCanBeTerminated) {
  Group group("children", 0);
  group.steps(5);
  EXPECT_EQ(group.restarts->used(), 0);
}

class ForgottenMaskTest : public ::testing::TestWithParam<std::string> {};

// And not the next episode's first one.
TEST_P(ForgottenMaskTest, EndsTheEpisodeWithWhatWasSeenLast) {
  const std::string id = "gymnasium:spaces_env:Forgetful-v0";
  const EnvOptionTexts options{{"python.vectorization", GetParam()}};
  const auto restarts = std::make_shared<RestartBudget>(1);
  IsolatedEnvs group(registry_with(id, options).spec(id), 1, python_isolation({}, id, with_python(options)), restarts);
  EnvBuffers seen(group);
  const std::uint64_t seed = 5;
  group.reset(std::span(&seed, 1), seen.arrays());
  for (int step = 0; step < 2; ++step) {
    const std::int64_t action = std::ranges::find(seen.action_mask(), 1) - seen.action_mask().begin();
    group.step({.discrete = &action}, seen.arrays());
  }
  EXPECT_THAT(restarts->take_remarks(), ElementsAre(HasSubstr("its info has no action_mask any more")));
  EXPECT_EQ(seen.truncated()[0], 1);
  EXPECT_THAT(seen.final_observation<float>(0), ElementsAre(1.0F));
}

INSTANTIATE_TEST_SUITE_P(Ways, ForgottenMaskTest, ::testing::Values("loop", "vector"),
                         [](const auto& its) { return its.param; });

TEST(PythonFaultsTest, ItsStandardInputIsEmpty) {
  Group group("read");
  group.steps(5);
  EXPECT_EQ(group.restarts->used(), 0);
}

}  // namespace
}  // namespace tandem::rl
