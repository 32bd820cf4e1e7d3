// Ranks that are killed, or stopped and continued, at random instants of a training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <regex>
#include <sstream>
#include <thread>

#include "tandem/base/clock.h"
#include "tandem/base/testing/free_port.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "tests/failure/training_ranks.h"
#include "tests/namespaces/two_hosts.h"

namespace tandem::failure_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using namespaces_test::TwoHosts;
using process_test::Child;
using process_test::Ended;

constexpr int kRanks = 4;
// Of the ranks for each other: a stopped one is noticed by it, a killed one long before.
constexpr std::chrono::milliseconds kPatience = 5s;
// Within which all others end after the signal: what is under way, the message and the end of a process take time.
// Tests that run beside others have no such bound.
constexpr std::chrono::milliseconds kInTime = kPatience + 2s, kAtAll = process_test::kPatience;

std::string content_of(const fs::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

std::vector<std::string> lines_with(const std::string& text, const std::string& part) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(part) != std::string::npos) found.push_back(line);
  }
  return found;
}

// Sockets by which processes meet. Those of other tests beside this one last as long as a meeting.
bool have_gone(const std::vector<std::string>& sockets, const fs::path& network) {
  const Deadline deadline = Deadline::after(30s);
  while (!deadline.expired()) {
    const std::string now = content_of(network / "unix");
    const auto is_there = [&now](const std::string& line) {
      return now.find(line.substr(line.find('@'))) != std::string::npos;
    };
    if (std::ranges::none_of(sockets, is_there)) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

// What outlives a process if nobody removes it, in the network of that process.
void expect_nothing_left(const fs::path& network, int port) {
  const std::vector<std::string> sockets = lines_with(content_of(network / "unix"), "@tandem/");
  EXPECT_TRUE(have_gone(sockets, network)) << ::testing::PrintToString(sockets);
  std::ostringstream address;
  address << ':' << std::hex << std::uppercase << port << " ";
  for (const char* table : {"tcp", "tcp6"}) {
    for (const std::string& line : lines_with(content_of(network / table), address.str()))
      EXPECT_EQ(line.find(" 0A "), std::string::npos) << "somebody listens: " << line;
  }
  for (const auto& file : fs::directory_iterator("/dev/shm"))
    EXPECT_EQ(file.path().string().find("tandem"), std::string::npos) << file.path();
}

// Ranks that a message blames, which died or left, or were waited for until the deadline.
struct Blame {
  std::vector<std::string> gone, late;
};
Blame blamed(const std::string& text) {
  const auto found = [&text](const std::regex& how) {
    std::vector<std::string> ranks;
    for (std::sregex_iterator it(text.begin(), text.end(), how), end; it != end; ++it) ranks.push_back((*it)[1]);
    return ranks;
  };
  return {.gone = found(std::regex(R"(rank (\d+) \(process [^)]*\) (?:died|left))")),
          .late = found(std::regex(R"(waited for rank ([\d, ]+) until the deadline)"))};
}

class Run {
 public:
  Run(const Place& place, const fs::path& folder)
      : folder_(folder), ranks_(start_ranks(kRanks, place, {"endless", folder.string(), concat(kPatience.count())})) {}

  bool is_under_way() {
    const Deadline deadline = Deadline::after(process_test::kPatience);
    while (!deadline.expired()) {
      int begun = 0;
      for (int rank = 0; rank < kRanks; ++rank) begun += fs::exists(folder_ / std::to_string(rank)) ? 1 : 0;
      if (begun == kRanks) return true;
      if (std::ranges::any_of(ranks_, [](Child& rank) { return !rank.is_running(); })) return false;
      std::this_thread::sleep_for(1ms);
    }
    return false;
  }

  // Every other rank ends with an error that names the victim and nobody else: one that was killed because it has died,
  // and not because somebody waited for it in vain. Returns the seconds until the last of them had ended.
  double expect_victim_named(int victim, int signal) {
    using ::testing::Each;
    using ::testing::IsEmpty;
    const Clock::time_point start = Clock::now();
    of(victim).signal(signal);
    std::map<int, Ended> others;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank != victim) others[rank] = of(rank).wait();
    }
    const double seconds = seconds_since(start);
    for (const auto& [rank, ended] : others) {
      SCOPED_TRACE(concat("rank ", rank, ": ", ended.err));
      EXPECT_EQ(ended.exit_code, 3) << ended.how();
      const Blame blame = blamed(ended.err);
      EXPECT_THAT(signal == SIGKILL ? blame.gone : blame.late, ::testing::Not(IsEmpty()));
      EXPECT_THAT(blame.gone, Each(std::to_string(victim)));
      EXPECT_THAT(blame.late, Each(std::to_string(victim)));
      if (signal == SIGKILL) {
        EXPECT_THAT(blame.late, IsEmpty());
      }
    }
    of(victim).signal(SIGCONT);
    const Ended ended = of(victim).wait();
    EXPECT_EQ(ended.how(), signal == SIGKILL ? "signal 9" : "exit code 3") << ended.err;
    return seconds;
  }

 private:
  Child& of(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  const fs::path folder_;
  std::deque<Child> ranks_;
};

void signal_at_random_instants(const std::function<Place()>& place, const fs::path& network, int runs,
                               std::chrono::duration<double> bound) {
  constexpr unsigned kSeed = 4;
  std::mt19937 random(kSeed);
  std::map<int, double> longest;  // of each signal
  for (int run = 0; run < runs; ++run) {
    const int victim = std::uniform_int_distribution(0, kRanks - 1)(random), signal = run % 2 == 0 ? SIGKILL : SIGSTOP;
    const auto instant = std::chrono::microseconds(std::uniform_int_distribution(0, 100'000)(random));
    SCOPED_TRACE(concat("run ", run, " of seed ", kSeed, ": signal ", signal, " to rank ", victim, " after ",
                        instant.count(), " us"));
    const TemporaryFolder scratch;
    const Place here = place();
    Run training(here, scratch.path());
    ASSERT_TRUE(training.is_under_way());
    std::this_thread::sleep_for(instant);
    const double seconds = training.expect_victim_named(victim, signal);
    EXPECT_LE(seconds, bound.count()) << "until the last of the others had ended";
    longest[signal] = std::max(longest[signal], seconds);
    expect_nothing_left(network, here.port);
  }
  std::cout << "until the last of the others had ended: " << longest[SIGKILL] << " s at most after a kill, "
            << longest[SIGSTOP] << " s after a stop; the deadline is " << kPatience.count() / 1000 << " s\n";
}

void on_one_host(int runs, std::chrono::milliseconds bound) {
  signal_at_random_instants([] { return Place{.port = free_port()}; }, "/proc/self/net", runs, bound);
}

void on_two_hosts(int runs, std::chrono::milliseconds bound) {
  const TwoHosts hosts;
  if (hosts.refusal()) GTEST_SKIP() << *hosts.refusal();
  const Place place{.master = TwoHosts::address(0), .port = 29500, .enter = [&](int rank) { hosts.enter(rank / 2); }};
  signal_at_random_instants([&] { return place; }, concat("/proc/", hosts.process(0), "/net"), runs, bound);
}

TEST(OneHostSignalsTest, AKilledOrStoppedRankIsNamedByAllOthersAndNothingStays) { on_one_host(2, kAtAll); }
TEST(LongOneHostSignalsTest, AKilledOrStoppedRankIsNamedByAllOthersInTimeAndNothingStays) { on_one_host(30, kInTime); }

TEST(TwoHostsSignalsTest, AKilledOrStoppedRankIsNamedByAllOthersAndNothingStays) { on_two_hosts(4, kAtAll); }
TEST(LongTwoHostsSignalsTest, AKilledOrStoppedRankIsNamedByAllOthersInTimeAndNothingStays) {
  on_two_hosts(30, kInTime);
}

}  // namespace
}  // namespace tandem::failure_test
