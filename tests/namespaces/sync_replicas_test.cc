// sync_replicas on two hosts: gradients are accounted for whoever is slow, and the death of a process or a whole host
// is survived. That its bits are those of one process is in training_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "tandem/base/text.h"
#include "tests/namespaces/cut_link.h"
#include "tests/process/gradient_account.h"

namespace tandem::namespaces_test {
namespace {

using namespace std::chrono_literals;
using process_test::Child;
using process_test::Command;
using process_test::Ended;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TwoHostsSyncReplicasTest : public CutLink {};

// The last rank, on the other host than the variables, is stopped again and again.
TEST_F(TwoHostsSyncReplicasTest, AStragglerIsNotWaitedForAndItsGradientsAreAccountedFor) {
  constexpr std::int64_t kUpdates = 64, kGradientsOfUpdate = 4;
  process_test::Recipe recipe = process_test::with_setting(process_test::cartpole(), "ppo.target_kl=none");
  recipe = process_test::with_steps(recipe, kUpdates * recipe.rows);
  start(recipe, 2, {"--strategy", "sync_replicas", "--set", "sync_replicas.replicas_to_aggregate=3"});
  ASSERT_TRUE(reaches_update(1));
  while (ranks.back().is_running()) {
    ranks.back().signal(SIGSTOP);
    std::this_thread::sleep_for(10ms);
    ranks.back().signal(SIGCONT);
    std::this_thread::sleep_for(10ms);
  }
  std::string shown;
  for (Child& rank : ranks) {
    const Ended ended = rank.wait();
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    shown += ended.err + ended.out;
  }
  process_test::expect_accounted_for(folder, {.of_each = kUpdates * kGradientsOfUpdate}, shown);
  EXPECT_GT(process_test::dropped_in(folder), 0);
}

// Rank 0 kills itself at step 100, alone, so that who takes over is on the other host and has its standby on the first;
// or rank 1 dies in the same moment, as on a host that fails.
TEST_F(TwoHostsSyncReplicasTest, TheDeathOfTheProcessOrHostThatHasTheVariablesIsSurvived) {
  constexpr int kFirst = 2;
  const comm::HostedStore store = store_on_first(hosts);  // of a launcher that outlives the host's ranks
  Command command{STANDBY_PROGRAM, {"100"}};
  for (const int dead : {1, kFirst}) {
    SCOPED_TRACE(concat(dead, " dead"));
    // Runs of their own, or one would take what the store has of the other for its ranks' addresses.
    command.environment = {concat("TANDEM_RUN_ID=", dead, "-dead"), "TANDEM_ON_DEATH=continue",
                           "TANDEM_RANK_RESTARTS=0"};
    ranks.clear();
    for (int rank = 0; rank < kAllRanks; ++rank)
      ranks.emplace_back(as_rank(hosts, command, rank, kFirst, store.place.endpoint.port));
    EXPECT_EQ(ranks[0].wait().signal, SIGKILL);
    for (int rank = 1; rank < kAllRanks; ++rank) {
      if (rank < dead) ranks[static_cast<std::size_t>(rank)].signal(SIGKILL);
    }
    for (int rank = dead; rank < kAllRanks; ++rank) {
      const Ended ended = ranks[static_cast<std::size_t>(rank)].wait();
      EXPECT_EQ(ended.exit_code, 0) << ended.err;
      EXPECT_THAT(ended.out, AllOf(HasSubstr(concat("rank ", rank, " of 4: 300 steps")), Not(HasSubstr("nan"))));
    }
  }
}

}  // namespace
}  // namespace tandem::namespaces_test
