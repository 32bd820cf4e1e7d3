// Four ranks on two cores, for ten minutes: never do all of them run, so they sleep, meet at gates and are put off at
// any instant. One training follows the other, of every strategy and transport, and all must end well, those that
// promise it with the bits of one process. A sanitizer's finding ends a rank and so the test:
//
//     tools/build asan tandem_process_tests
//     (set -a; . build/asan/sanitizer.env; build/asan/bin/tandem_process_tests --gtest_filter='LongCrowdedRanks*')
#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include "tandem/base/clock.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "training.h"

namespace tandem::process_test {
namespace {

using namespace std::chrono_literals;

constexpr auto kFor = 10min;
constexpr int kRanks = 4, kCores = 2;

// The first ones that this process may use.
cpu_set_t few_cores() {
  cpu_set_t allowed, few;
  CPU_ZERO(&few);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) throw std::runtime_error("sched_getaffinity");
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&few) < kCores; ++core) {
    if (CPU_ISSET(core, &allowed)) CPU_SET(core, &few);
  }
  return few;
}

enum class Promise { kSameBits, kAnEnd };

struct Training {
  std::string name;
  Recipe recipe;
  std::vector<std::string> flags;
  Promise promise = Promise::kSameBits;
};

std::vector<Training> trainings() {
  return {{"replicated", cartpole(), {}},
          {"normalised", pendulum(), {}},
          {"divided", cartpole(), {"--strategy", "divided"}},
          {"parameter server", cartpole(), {"--strategy", "parameter_server"}},
          {"over TCP", cartpole(), {"--backend", "tcp"}},
          {"DD-PPO", dd_ppo(), {}},
          {"sync_replicas", cartpole(), {"--strategy", "sync_replicas"}, Promise::kAnEnd},
          {"asynchronous", cartpole(), {"--strategy", "asynchronous"}, Promise::kAnEnd}};
}

TEST(LongCrowdedRanksTest, FourOnTwoCoresTrainForTenMinutes) {
  const cpu_set_t cores = few_cores();
  std::vector<std::string> states;  // of one process, by training
  for (const Training& training : trainings())
    states.push_back(training.promise == Promise::kSameBits ? uninterrupted_state(training.recipe) : "");
  const Clock::time_point start = Clock::now();
  int runs = 0;
  while (Clock::now() - start < kFor || runs < std::ssize(states)) {
    const auto which = static_cast<std::size_t>(runs) % states.size();
    const Training training = trainings()[which];
    SCOPED_TRACE(concat("run ", runs, ": ", training.name));
    const TemporaryFolder scratch;
    Command command = train(training.recipe, scratch / "run", "cpu:1");
    command.arguments.insert(command.arguments.end(), training.flags.begin(), training.flags.end());
    command = as_ranks(kRanks, command);
    command.prepare = [&cores] { (void)::sched_setaffinity(0, sizeof(cores), &cores); };
    expect_success(command);
    EXPECT_EQ(summary_of(scratch / "run").at("end").as_string(), "finished");
    if (training.promise == Promise::kSameBits) {
      ASSERT_EQ(state_of(scratch / "run"), states[which]);
    }
    ++runs;
  }
  std::cout << runs << " trainings of " << kRanks << " ranks on " << CPU_COUNT(&cores) << " cores\n";
}

}  // namespace
}  // namespace tandem::process_test
