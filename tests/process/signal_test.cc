// Every signal that asks for a stop, at random instants, to a random process of the run: one checkpoint that loads, the
// same update on all ranks, the documented exit code, and a requeue where it was asked for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <deque>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>

#include "tandem/base/atomic_file.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/base/testing/free_port.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "training.h"

namespace tandem::process_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

constexpr std::array<int, 4> kSignals{SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

// How the processes of a run come to be.
enum class Start { kAlone, kRanks, kLaunch, kVariables };
constexpr std::array<Start, 4> kStarts{Start::kAlone, Start::kRanks, Start::kLaunch, Start::kVariables};
constexpr std::array<const char*, 4> kStartNames{"alone", "--ranks", "launch", "variables"};

// With a checkpoint after every second update (train()) of a millisecond, mostly one is being written.
Recipe endless() {
  Recipe recipe = with_steps(cartpole(), 1'000'000'000);
  recipe.arguments.insert(recipe.arguments.end(), {"--set", "ppo.learning_rate_schedule=constant", "--set",
                                                   "ppo.clip_range_schedule=constant"});
  return recipe;
}

Recipe endless_dd_ppo() {
  return with_setting(with_steps(dd_ppo(), 1'000'000'000), "ppo.learning_rate_schedule=constant");
}

std::string search_path() { return std::getenv("PATH"); }  // NOLINT(concurrency-mt-unsafe): nobody changes it

// One of two ranks that no launcher looks after; rank 0 hosts the store.
Command as_rank(int rank, int port, Command command) {
  for (const std::string& variable :
       {concat("RANK=", rank), std::string("WORLD_SIZE=2"), concat("LOCAL_RANK=", rank),
        std::string("LOCAL_WORLD_SIZE=2"), std::string("MASTER_ADDR=127.0.0.1"), concat("MASTER_PORT=", port)})
    command.environment.push_back(variable);
  return command;
}

// Not the launcher's warden, nor a rank that is still being loaded.
bool catches_signals(pid_t process) {
  std::string name;
  std::ifstream(concat("/proc/", process, "/comm")) >> name;
  if (name != "tandem") return false;
  std::ifstream status(concat("/proc/", process, "/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigCgt:")) return (std::stoull(line.substr(7), nullptr, 16) & 1ULL << (SIGUSR1 - 1)) != 0;
  }
  return false;
}

// A run on two ranks (or alone), whose `scontrol` writes down what it was asked for.
class SignalledRun {
 public:
  explicit SignalledRun(Start start, const Recipe& recipe = endless()) : start_(start) {
    std::ofstream(scratch_ / "scontrol") << "#!/bin/sh\necho \"$@\" >> " << asked_file().string() << "\n";
    fs::permissions(scratch_ / "scontrol", fs::perms::owner_all);
    Command command = train(recipe, folder(), "cpu:1");
    command.environment = {concat("PATH=", scratch_.path().string(), ":", search_path()), "SLURM_JOB_ID=815"};
    if (start == Start::kRanks) command.arguments.insert(command.arguments.end(), {"--ranks", "2"});
    if (start == Start::kLaunch) command = as_ranks(2, command);
    if (start != Start::kVariables) {
      children_.emplace_back(command);
      return;
    }
    const int port = free_port();
    for (int rank = 0; rank < 2; ++rank) children_.emplace_back(as_rank(rank, port, command));
  }

  [[nodiscard]] fs::path folder() const { return scratch_ / "run"; }
  [[nodiscard]] std::size_t ranks() const { return start_ == Start::kAlone ? 1 : 2; }

  // The processes that train, once as many as ranks have taken the signals over.
  std::vector<pid_t> trainers() {
    std::vector<pid_t> found;
    const bool all = eventually([&] {
      found.clear();
      for (Child& child : children_) {
        if (start_ != Start::kRanks && start_ != Start::kLaunch) {
          found.push_back(child.id());
        } else {
          std::ifstream children(concat("/proc/", child.id(), "/task/", child.id(), "/children"));
          for (pid_t rank = 0; children >> rank;) {
            if (command_line(rank) != command_line(child.id())) found.push_back(rank);
          }
        }
      }
      std::erase_if(found, [](pid_t process) { return !catches_signals(process); });
      return found.size() == ranks();
    });
    EXPECT_TRUE(all) << found.size() << " trainers";
    return found;
  }

  std::vector<Ended> wait() {
    std::vector<Ended> ended;
    for (Child& child : children_) ended.push_back(child.wait());
    return ended;
  }
  Child& first() { return children_.front(); }

  // What scontrol was asked for.
  [[nodiscard]] std::string asked() const { return fs::exists(asked_file()) ? read_file(asked_file()) : ""; }

 private:
  [[nodiscard]] fs::path asked_file() const { return scratch_ / "asked"; }

  // That of the launcher until it executes its own: so long it has the launcher's handlers, too.
  static std::string command_line(pid_t process) {
    std::ifstream file(concat("/proc/", process, "/cmdline"));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const Start start_;
  const TemporaryFolder scratch_;
  std::deque<Child> children_;
};

void expect_stopped_run(SignalledRun& run) {
  for (const Ended& ended : run.wait())
    EXPECT_EQ(ended.exit_code, 130) << ended.how() << "\n" << ended.out << ended.err;
  expect_inspectable(run.folder());
  EXPECT_EQ(summary_of(run.folder()).at("end").as_string(), "stopped");
  if (summary_of(run.folder()).at("updates").as_int64() > 0) expect_line_for_every_update(run.folder());
}

// The state two updates later equals that of a run that nobody stopped.
void expect_goes_on_exactly(SignalledRun& run, const Recipe& recipe) {
  const std::int64_t steps = (summary_of(run.folder()).at("updates").as_int64() + 2) * recipe.rows;
  Command resumed = resume(run.folder(), "cpu:2");
  resumed.arguments.insert(resumed.arguments.end(), {"--total-steps", std::to_string(steps)});
  expect_success(resumed);
  EXPECT_EQ(summary_of(run.folder()).at("resumed").as_string(), "exactly");
  EXPECT_EQ(state_of(run.folder()), uninterrupted_state(with_steps(recipe, steps)));
}

// From the instant at which the last rank can be asked, which is before the ranks have met, over the first updates.
class RandomInstantTest : public ::testing::TestWithParam<int> {};

TEST_P(RandomInstantTest, ASignalLeavesOneCheckpointThatGoesOnExactly) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  const Start start = kStarts[static_cast<std::size_t>(GetParam()) % kStarts.size()];
  const int number = kSignals[static_cast<std::size_t>(GetParam()) / kStarts.size() % kSignals.size()];
  const bool is_dd_ppo = (GetParam() + GetParam() / 4) % 2 == 0;  // with each start and each signal
  const Recipe recipe = is_dd_ppo ? endless_dd_ppo() : endless();
  SignalledRun run(start, recipe);
  const std::vector<pid_t> trainers = run.trainers();
  ASSERT_EQ(trainers.size(), run.ranks());
  const auto delay = std::chrono::microseconds(std::uniform_int_distribution(0, 700'000)(random));
  const pid_t hit = trainers[std::uniform_int_distribution<std::size_t>(0, trainers.size() - 1)(random)];
  SCOPED_TRACE(concat(recipe.name, " ", kStartNames[static_cast<std::size_t>(start)], ", signal ", number, " after ",
                      delay.count(), " us"));
  std::this_thread::sleep_for(delay);
  ::kill(hit, number);
  expect_stopped_run(run);
  EXPECT_EQ(run.asked(), number == SIGUSR1 ? "requeue 815\n" : "");
  EXPECT_THAT(read_file(run.folder() / "log.txt"), HasSubstr(concat(" got SIG", ::sigabbrev_np(number))));
  expect_goes_on_exactly(run, recipe);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomInstantTest, ::testing::Range(0, 16));

// As a scheduler does it that signals every process of a job, and its launchers pass on what they get.
TEST(SignalTest, ToAllAtOnceAndRepeatedIsOneStop) {
  SignalledRun run(Start::kLaunch);
  ASSERT_TRUE(reaches_update(run.first(), run.folder(), 2));
  const std::vector<pid_t> ranks = run.trainers();
  for (const pid_t rank : ranks) ::kill(rank, SIGUSR1);
  run.first().signal(SIGUSR1);
  for (const pid_t rank : ranks) ::kill(rank, SIGTERM);
  for (int i = 0; i < 3; ++i) run.first().signal(SIGINT);  // as timeout(1) does
  expect_stopped_run(run);
  EXPECT_EQ(run.asked(), "requeue 815\n");
}

// While ranks are still being loaded the system's default ends them: nothing was begun then, or all have met.
TEST(SignalTest, ToTheLauncherDuringItsStartEndsAll) {
  std::mt19937 random(7);
  for (const int number : kSignals) {
    SignalledRun run(Start::kRanks);
    ASSERT_TRUE(eventually([&] { return fs::exists(concat("/proc/", run.first().id(), "/task")); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution(100, 700)(random)));
    run.first().signal(number);
    const Ended ended = run.wait().front();
    const bool before_its_own_start = ended.signal == number;
    EXPECT_TRUE(before_its_own_start || ended.exit_code == 130) << ended.how() << "\n" << ended.err;
    if (fs::exists(run.folder() / "config.yaml")) expect_inspectable(run.folder());
  }
}

// The signal comes during the only update.
TEST(SignalTest, ARunThatFinishesAllTheSameIsNotQueuedAgain) {
  const TemporaryFolder scratch;
  const auto folder = scratch / "run";
  Command command = tandem({"train", "--env", "CartPole-v1", "--num-envs", "8", "--rollout-steps", "131072",
                            "--total-steps", "1048576", "--epochs", "1", "--run-dir", folder.string()});
  command.environment = {"PATH=/nonexistent", "SLURM_JOB_ID=815"};
  Child child(command);
  ASSERT_TRUE(eventually([&] {
    return fs::exists(folder / "log.txt") && read_file(folder / "log.txt").find("an update has") != std::string::npos;
  }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  ASSERT_FALSE(fs::exists(folder / "summary.json"));
  child.signal(SIGUSR1);
  const Ended ended = child.wait();
  EXPECT_EQ(ended.exit_code, 0) << ended.how() << ended.err;
  EXPECT_EQ(summary_of(folder).at("end").as_string(), "finished");
}

TEST(SignalTest, WithoutSlurmItSaysThatThereIsNoJob) {
  const TemporaryFolder scratch;
  Child child(train(endless(), scratch / "run", "cpu:1"));
  ASSERT_TRUE(reaches_update(child, scratch / "run", 2));
  child.signal(SIGUSR1);
  const Ended ended = child.wait();
  EXPECT_EQ(ended.exit_code, 130);
  EXPECT_THAT(ended.out, HasSubstr("SLURM_JOB_ID is not set"));
}

TEST(SignalTest, ARequeueThatFailsIsSaidAndTheCheckpointIsWhole) {
  const TemporaryFolder scratch;
  std::ofstream(scratch / "scontrol") << "#!/bin/sh\nexit 1\n";
  fs::permissions(scratch / "scontrol", fs::perms::owner_all);
  Command command = train(endless(), scratch / "run", "cpu:1");
  command.environment = {concat("PATH=", scratch.path().string(), ":", search_path()), "SLURM_JOB_ID=815"};
  Child child(command);
  ASSERT_TRUE(reaches_update(child, scratch / "run", 2));
  child.signal(SIGUSR1);
  const Ended ended = child.wait();
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_THAT(ended.err, HasSubstr("scontrol requeue 815 ended with exit code 1"));
  expect_inspectable(scratch / "run");
}

// A checkpoint needs all ranks: one that is gone must not keep a signalled one waiting.
TEST(SignalTest, AfterALostPeerASignalDoesNotWaitForIt) {
  SignalledRun run(Start::kVariables);
  ASSERT_TRUE(reaches_update(run.first(), run.folder(), 3));
  const std::vector<pid_t> trainers = run.trainers();
  ASSERT_EQ(trainers.size(), 2U);
  const auto start = std::chrono::steady_clock::now();
  ::kill(trainers[1], SIGKILL);
  ::kill(trainers[0], SIGUSR1);
  const std::vector<Ended> ended = run.wait();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_EQ(ended[0].exit_code, 3) << ended[0].how() << ended[0].err;
  EXPECT_THAT(ended[0].err, HasSubstr("rank 1"));
  EXPECT_THAT(run.asked(), IsEmpty()) << "a run that failed is not queued again";
  expect_inspectable(run.folder());
}

TEST(SignalTest, ARankWhoseOthersDoNotComeEndsSoon) {
  const TemporaryFolder scratch;
  Child child(as_rank(0, free_port(), train(endless(), scratch / "run", "cpu:1")));
  ASSERT_TRUE(eventually([&] { return catches_signals(child.id()); }));
  const auto start = std::chrono::steady_clock::now();
  child.signal(SIGTERM);
  const Ended ended = child.wait();
  EXPECT_EQ(ended.exit_code, 130) << ended.how();
  EXPECT_THAT(ended.err, HasSubstr("stopped before all ranks had come; nothing was begun"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_FALSE(fs::exists(scratch / "run"));
}

}  // namespace
}  // namespace tandem::process_test
