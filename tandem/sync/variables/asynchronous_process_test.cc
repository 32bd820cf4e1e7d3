// Asynchronous replicas in processes of their own, some of which die or stop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <csignal>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/state_hash.h"
#include "tandem/sync/testing/served_world.h"

namespace tandem::sync {
namespace {

using namespace std::chrono_literals;
using shm::ProcessWorld;
using shm::Voice;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

Limits a_minute() { return within(60s); }

TEST(AsynchronousProcessTest, UpdatesOfAllProcessesAddUpExactlyAndAllEndAlike) {
  constexpr int kSteps = 20;
  ProcessWorld world = run_as_processes(
      {.shards = 3,
       .replicas = 3,
       .options = {.mean = {}, .scaling = Scaling::kNone},
       .build = [](int) { return std::make_shared<LinearAndTable>(); }},
      [](Replica& replica, Asynchronous& strategy, const Voice& voice) {
        const int me = replica.placement().replica;
        auto& net = dynamic_cast<LinearAndTable&>(replica.module());
        std::int64_t most = 0;
        for (int i = 0; i < kSteps - me; ++i) {  // uneven numbers of batches
          strategy.open(me);
          (net.loss(me) + net.table(torch::tensor({me, 4})).sum()).backward();
          strategy.close(1, 0.0);
          const StepReport report = strategy.step(1.0, a_minute());
          most = std::max(most, report.staleness);
          if (report.verdict != Verdict::kApplied) voice.say("not applied; ");
        }
        strategy.leave(a_minute());
        const double moved = -0.5 * (kSteps * 1 + (kSteps - 1) * 2 + (kSteps - 2) * 4);
        if (!torch::equal(net.values.detach(), torch::full({8}, moved))) voice.say(concat(net.values));
        const torch::Tensor rows = torch::tensor({kSteps, kSteps - 1, kSteps - 2, 0, 3 * kSteps - 3}) * -0.5;
        if (!torch::equal(net.table->weight.detach().select(1, 1), rows)) voice.say(concat(net.table->weight));
        voice.say(model::state_sha256(replica.named_state()));
      });
  const std::vector<std::string> outcomes = world.outcomes();
  EXPECT_EQ(outcomes[0].size(), 64U) << outcomes[0];
  EXPECT_THAT(outcomes, Each(outcomes[0]));
}

// The slow one is stopped by a signal: the fast one may not go on, and says so at its deadline.
TEST(AsynchronousProcessTest, AStoppedReplicaIsNamedByWhoWaitsForIt) {
  ProcessWorld world =
      run_as_processes({.shards = 3, .replicas = 3, .options = {.wait_for_slower = 1}, .build = build_linear()},
                       [](Replica& replica, Asynchronous& strategy, const Voice& voice) {
                         (void)step_linear(replica, strategy);
                         if (replica.placement().replica == 2) ::raise(SIGSTOP);
                         try {
                           for (;;) (void)step_linear(replica, strategy, within(300ms));
                         } catch (const DeadlineExceeded& error) {
                           voice.say("too late: ");
                           throw;
                         }
                       });
  // Whoever gives up first ends it for the other, too, so one of them may name the first instead.
  const std::string first = world.outcome(0), second = world.outcome(1);
  EXPECT_THAT(first, ::testing::AnyOf(HasSubstr("waited for replica 2"), HasSubstr("replica 1 ")));
  EXPECT_THAT(second, ::testing::AnyOf(HasSubstr("waited for replica 2"), HasSubstr("replica 0 ")));
  EXPECT_THAT(first + second, AllOf(HasSubstr("too late: "), HasSubstr("waited for replica 2")));
}

// Steps until it is ended; says so after the first, and which replica it then lost.
void step_until_lost(Replica& replica, Asynchronous& strategy, const Voice& voice) {
  (void)step_linear(replica, strategy);
  voice.say("stepped; ");
  try {
    for (;;) (void)step_linear(replica, strategy);
  } catch (const PeerLost& lost) {
    voice.say(concat("lost ", lost.peer(), ": "));
    throw;
  }
}

void expect_named_by_all_others(int victim) {
  ProcessWorld world = run_as_processes({.shards = 3, .replicas = 3, .build = build_linear()}, step_until_lost);
  for (const int rank : {0, 1, 2}) EXPECT_TRUE(world.hears(rank, "stepped; "));
  world.signal(victim, SIGKILL);
  for (const int rank : {0, 1, 2}) {
    if (rank == victim) continue;
    EXPECT_THAT(world.outcome(rank),
                AllOf(HasSubstr(concat("lost ", victim, ": ")), HasSubstr(concat("replica ", victim, " (process "))));
  }
}

TEST(AsynchronousProcessTest, AKilledWorkerIsPeerLostOnAllOthers) { expect_named_by_all_others(1); }

TEST(AsynchronousProcessTest, AKilledOwnerOfTheVariablesIsPeerLostOnAllOthers) { expect_named_by_all_others(0); }

TEST(AsynchronousProcessTest, AStoppedOwnerOfTheVariablesIsNamedAtTheDeadline) {
  ProcessWorld world =
      run_as_processes({.build = build_linear()}, [](Replica& replica, Asynchronous& strategy, const Voice& voice) {
        const bool is_owner = replica.placement().replica == 0;
        (void)step_linear(replica, strategy);
        voice.say("stepped; ");
        try {
          for (;;) (void)step_linear(replica, strategy, within(is_owner ? 60s : 300ms));
        } catch (const DeadlineExceeded&) {
          voice.say("too late: ");
          throw;
        }
      });
  for (const int rank : {0, 1}) EXPECT_TRUE(world.hears(rank, "stepped; "));
  world.signal(0, SIGSTOP);
  EXPECT_THAT(world.outcome(1), AllOf(HasSubstr("too late: "), HasSubstr("replica 0 (process ")));
}

// The end is collective: who waits for one that never comes is told who is missing.
TEST(AsynchronousProcessTest, LeavingWaitsForAllUntilTheDeadline) {
  ProcessWorld world =
      run_as_processes({.build = build_linear()}, [](Replica& replica, Asynchronous& strategy, const Voice&) {
        (void)step_linear(replica, strategy);
        if (replica.placement().replica == 1) ::raise(SIGSTOP);
        strategy.leave(within(300ms));
      });
  EXPECT_THAT(world.outcome(0), HasSubstr("rank 1"));
}

}  // namespace
}  // namespace tandem::sync
