// `tandem launch` with ranks that meet in a store, and the same ranks started by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tandem/base/atomic_file.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/base/testing/free_port.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "tests/support/child.h"

namespace tandem::process_test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

Command launch(std::vector<std::string> flags, const std::vector<std::string>& rank_arguments) {
  flags.insert(flags.begin(), "launch");
  flags.insert(flags.end(), {"--", LAUNCH_RANK});
  flags.insert(flags.end(), rank_arguments.begin(), rank_arguments.end());
  return {TANDEM_PROGRAM, flags};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The processes of ranks that wait in `folder`, once all do.
std::vector<pid_t> waiting_ranks(const std::filesystem::path& folder, int ranks) {
  std::vector<pid_t> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::filesystem::path file = folder / std::to_string(rank);
    EXPECT_TRUE(eventually([&] { return std::filesystem::exists(file) && !read_file(file).empty(); })) << file;
    processes.push_back(std::stoi(read_file(file)));
  }
  return processes;
}

bool is_alive(pid_t process) {
  const std::filesystem::path file = concat("/proc/", process, "/stat");
  try {
    const std::string text = read_file(file);
    return text.substr(text.rfind(')') + 2, 1) != "Z";
  } catch (const std::exception&) {
    return false;
  }
}

TEST(LaunchTest, RanksMeetInTheStoreOfTheLauncher) {
  const Ended ended = run(launch({"--ranks", "3"}, {"end"}));
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  const std::vector<std::string> lines = lines_of(ended.out);
  EXPECT_THAT(lines, SizeIs(3));
  EXPECT_THAT(lines, Each(AllOf(HasSubstr("by tandem launch; store at 127.0.0.1:"), HasSubstr("; met n0 n1 n2"))));
  for (const char* who : {"[0] rank 0 of 3 (local rank 0 of 3)", "[1] rank 1 of 3", "[2] rank 2 of 3"}) {
    EXPECT_THAT(lines, ::testing::Contains(StartsWith(who)));
  }
}

// Each computes on its share of the cores, unless the caller says otherwise.
TEST(LaunchTest, RanksShareTheCores) {
  ::unsetenv("OMP_NUM_THREADS");  // NOLINT(concurrency-mt-unsafe): one thread
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  for (const int ranks : {1, 2, 4}) {
    const std::vector<std::string> lines = lines_of(run(launch({"--ranks", std::to_string(ranks)}, {"end"})).out);
    EXPECT_THAT(lines, SizeIs(ranks));
    for (const std::string& line : lines) {
      const int threads = std::stoi(line.substr(line.rfind(' ')));
      EXPECT_GE(threads, 1) << line;
      EXPECT_LE(threads, std::max(1, cores / ranks)) << line;
    }
  }
  Command told = launch({"--ranks", "2"}, {"end"});
  told.environment.emplace_back("OMP_NUM_THREADS=7");
  EXPECT_THAT(lines_of(run(told).out), Each(HasSubstr("; threads 7")));
}

TEST(LaunchTest, AFailingRankEndsTheOthersAndGivesTheExitCode) {
  const Ended ended = run(launch({"--ranks", "3"}, {"fail", "1"}));
  EXPECT_EQ(ended.exit_code, 9);
  EXPECT_THAT(ended.err,
              AllOf(HasSubstr("first, rank 1 ended with exit code 9"), HasSubstr("    this rank was told to fail\n"),
                    HasSubstr("then: "), HasSubstr("rank 0 (SIGTERM)"), HasSubstr("rank 2 (SIGTERM)")));
}

TEST(LaunchTest, AKilledRankIsNamed) {
  const TemporaryFolder folder;
  Child launcher(launch({"--ranks", "2"}, {"wait", folder.path().string()}));
  ::kill(waiting_ranks(folder.path(), 2).at(1), SIGKILL);
  const Ended ended = launcher.wait();
  EXPECT_EQ(ended.exit_code, 128 + SIGKILL);
  EXPECT_THAT(ended.err, HasSubstr("first, rank 1 was ended by SIGKILL"));
}

TEST(LaunchTest, AReplacementKnowsThatItIsOneAndFindsTheStoreAsItWas) {
  const TemporaryFolder folder;
  Child launcher(launch({"--ranks", "2", "--on-death", "replace"}, {"wait", folder.path().string()}));
  const std::vector<pid_t> first = waiting_ranks(folder.path(), 2);
  ::kill(first.at(1), SIGKILL);
  EXPECT_TRUE(eventually([&] { return waiting_ranks(folder.path(), 2).at(1) != first.at(1); }));
  EXPECT_TRUE(is_alive(first.at(0)));
  launcher.signal(SIGTERM);
  const Ended ended = launcher.wait();
  EXPECT_EQ(ended.exit_code, 130);
  EXPECT_THAT(ended.out, HasSubstr(", restart 1 of this rank; met n0 n1"));
}

TEST(LaunchTest, ARankThatEndsBeforeItHasMetTheOthersIsNotWaitedFor) {
  const TemporaryFolder scratch;
  const std::string rank =
      concat("[ $RANK = 1 ] && kill -9 $$; exec ", TANDEM_PROGRAM,
             " train --env CartPole-v1 --total-steps 2048 --quiet --run-dir ", (scratch / "run").string());
  const Ended ended =
      run({TANDEM_PROGRAM, {"launch", "--ranks", "2", "--on-death", "continue", "--", "sh", "-c", rank}});
  EXPECT_EQ(ended.exit_code, 128 + SIGKILL) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("rank 1 of 2 ended (SIGKILL) before it had met the others"));
}

TEST(LaunchTest, CtrlCEndsAllWith130) {
  const TemporaryFolder folder;
  Child launcher(launch({"--ranks", "2"}, {"wait", folder.path().string()}));
  const std::vector<pid_t> ranks = waiting_ranks(folder.path(), 2);
  launcher.signal(SIGINT);
  const Ended ended = launcher.wait();
  EXPECT_EQ(ended.exit_code, 130);
  EXPECT_THAT(ended.err, HasSubstr("SIGINT is passed on to the ranks"));
  for (const pid_t rank : ranks) EXPECT_FALSE(is_alive(rank));
}

TEST(LaunchTest, NothingRemainsOfALauncherThatIsKilled) {
  const TemporaryFolder folder;
  Child launcher(launch({"--ranks", "2"}, {"wait", folder.path().string()}));
  const std::vector<pid_t> ranks = waiting_ranks(folder.path(), 2);
  launcher.signal(SIGKILL);
  EXPECT_EQ(launcher.wait().signal, SIGKILL);
  for (const pid_t rank : ranks) EXPECT_TRUE(eventually([&] { return !is_alive(rank); }));
}

TEST(LaunchTest, RanksStartedByHandMeetInTheStoreOfRankZero) {
  const auto rank = [](int number, const std::string& port) {
    return Command{LAUNCH_RANK,
                   {"end"},
                   {concat("RANK=", number), "WORLD_SIZE=2", "MASTER_ADDR=localhost", concat("MASTER_PORT=", port)}};
  };
  const std::string port = std::to_string(free_port());
  Child second(rank(1, port)), first(rank(0, port));
  for (Child* child : {&first, &second}) {
    const Ended ended = child->wait();
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    EXPECT_THAT(ended.out,
                HasSubstr("by RANK and WORLD_SIZE; store at localhost:" + port + ", hosted by rank 0; met n0 n1"));
  }
}

}  // namespace
}  // namespace tandem::process_test
