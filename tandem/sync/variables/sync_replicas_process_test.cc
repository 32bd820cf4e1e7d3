// SyncReplicas in processes of their own, some of which die.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <csignal>
#include <thread>

#include "tandem/base/clock.h"
#include "tandem/base/error.h"
#include "tandem/base/philox.h"
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
using ::testing::StartsWith;

// Threads and processes, and Replicated.
TEST(SyncReplicasProcessTest, ProcessesGiveTheBitsOfReplicated) {
  constexpr int kSteps = 5;
  std::vector<std::string> expected(1);
  EXPECT_THAT(run_world(
                  6, 1, {},
                  [&](Replica& replica, Replicated& strategy) {
                    for (int i = 0; i < kSteps; ++i) (void)step_linear_and_table(replica, strategy);
                    expected[0] = model::state_sha256(replica.named_state());
                  },
                  [](int) { return std::make_shared<LinearAndTable>(); }),
              Each(""));
  const SyncWorld of_processes{
      .shards = 6, .replicas = 3, .build = [](int) { return std::make_shared<LinearAndTable>(); }};
  ProcessWorld world = of_processes.as_processes([](Replica& replica, SyncReplicas& strategy, const Voice& voice) {
    for (int i = 0; i < kSteps; ++i) {
      if (i == 2) {
        strategy.rest(within(60s));
        strategy.resume(within(60s));
      }
      const StepReport report = step_linear_and_table(replica, strategy);
      if (report.verdict != Verdict::kApplied || report.weight != 6 || report.step != i + 1)
        voice.say("not as all others; ");
    }
    strategy.leave(within(60s));
    voice.say(model::state_sha256(replica.named_state()));
  });
  EXPECT_THAT(world.outcomes(), Each(expected[0]));
}

// Who is late learns it, and averages are everywhere.
TEST(SyncReplicasProcessTest, TheLateOneIsToldAndAllEndAlike) {
  const SyncWorld of_processes{.shards = 3,
                               .replicas = 3,
                               .options = {.replicas_to_aggregate = 2, .average_decay = 0.5},
                               .build = build_linear()};
  ProcessWorld world = of_processes.as_processes([](Replica& replica, SyncReplicas& strategy, const Voice& voice) {
    std::int64_t offered = 0, dropped = 0, step = 0;
    while (step < 20) {
      const StepReport report = step_linear(replica, strategy);
      step = report.step;
      ++offered;
      dropped += report.verdict == Verdict::kDropped ? 1 : 0;
      if ((report.verdict == Verdict::kDropped) != (report.staleness > 0)) voice.say("what became of it? ");
    }
    const model::NamedTensors state = strategy.whole_state(within(60s));
    if (replica.placement().replica == 0) {
      if (state.back().first != "averages.values") voice.say("no averages; ");
      const std::vector<GradientTotals> totals = strategy.variables()->take_account().replicas;
      if (totals[0].offered != offered || totals[0].dropped != dropped) voice.say("totals differ; ");
    }
    voice.say(model::state_sha256(replica.named_state()));
  });
  const std::vector<std::string> outcomes = world.outcomes();
  EXPECT_EQ(outcomes[0].size(), 64U) << outcomes[0];
  EXPECT_THAT(outcomes, Each(outcomes[0]));
}

void step_until_it_is_lost(Replica& replica, SyncReplicas& strategy, const Voice& voice) {
  (void)step_linear(replica, strategy);
  voice.say("stepped; ");
  try {
    for (;;) (void)step_linear(replica, strategy);
  } catch (const PeerLost& lost) {
    voice.say(concat("lost ", lost.peer(), ": "));
    throw;
  }
}

TEST(SyncReplicasProcessTest, AKilledProcessIsPeerLostOnAllOthers) {
  for (const int victim : {1, 0}) {
    const SyncWorld of_processes{
        .shards = 3, .replicas = 3, .options = {.replicas_to_aggregate = 2}, .build = build_linear()};
    ProcessWorld world = of_processes.as_processes(step_until_it_is_lost);
    for (const int rank : {0, 1, 2}) EXPECT_TRUE(world.hears(rank, "stepped; "));
    world.signal(victim, SIGKILL);
    for (const int rank : {0, 1, 2}) {
      if (rank == victim) continue;
      EXPECT_THAT(world.outcome(rank),
                  AllOf(HasSubstr(concat("lost ", victim, ": ")), HasSubstr(concat("replica ", victim, " (process "))));
    }
  }
}

// The process of replica 0 holds the variables. Killed at any instant of a step it ends the run for all, whatever
// `on_death` says, and none of them has seen the step go back.
TEST(SyncReplicasProcessTest, AtWhateverInstantTheOwnerIsKilledAllOthersEndAndNameIt) {
  constexpr std::uint64_t kInstants = 20;
  for (std::uint64_t instant = 0; instant < kInstants; ++instant) {
    SCOPED_TRACE(concat("instant ", instant));
    Philox random(instant);
    const OnDeath on_death = instant % 2 == 0 ? OnDeath::kEnd : OnDeath::kGoOn;
    const SyncWorld of_processes{
        .shards = 3,
        .replicas = 3,
        .options = {.replicas_to_aggregate = 1 + static_cast<int>(random.below(4)), .on_death = on_death},
        .build = build_linear()};
    ProcessWorld world = of_processes.as_processes([](Replica& replica, SyncReplicas& strategy, const Voice& voice) {
      StepReport report = step_linear(replica, strategy);
      voice.say("stepped; ");
      try {
        for (;;) {
          const StepReport next = step_linear(replica, strategy);
          if (next.step < report.step) voice.say(concat("from step ", report.step, " to ", next.step, "; "));
          report = next;
        }
      } catch (const PeerLost& lost) {
        voice.say(concat("lost ", lost.peer(), ": "));
        throw;
      }
    });
    for (const int rank : {0, 1, 2}) EXPECT_TRUE(world.hears(rank, "stepped; "));
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(20'000)));
    const Clock::time_point killed = Clock::now();
    world.signal(0, SIGKILL);
    for (const int rank : {1, 2}) {
      EXPECT_THAT(world.outcome(rank), AllOf(StartsWith("stepped; lost 0: "), HasSubstr("replica 0 (process "),
                                             HasSubstr("go on from the last checkpoint")));
    }
    EXPECT_LT(seconds_since(killed), 20) << "a third of what a step may take";
  }
}

TEST(SyncReplicasProcessTest, TheOthersGoOnWithoutAKilledProcessAndEndAlike) {
  const SyncWorld of_processes{
      .shards = 3, .replicas = 3, .options = {.on_death = OnDeath::kGoOn}, .build = build_linear()};
  ProcessWorld world = of_processes.as_processes([](Replica& replica, SyncReplicas& strategy, const Voice& voice) {
    const int me = replica.placement().replica;
    StepReport report = step_linear(replica, strategy);
    if (me == 1) ::raise(SIGKILL);
    while (report.step < 20) report = step_linear(replica, strategy);
    if (report.weight != 2) voice.say("others than the two are in the step; ");
    strategy.leave(within(60s));
    voice.say(model::state_sha256(replica.named_state()));
  });
  EXPECT_THAT(world.outcome(1), HasSubstr("signal 9"));
  const std::string first = world.outcome(0);
  EXPECT_EQ(first.size(), 64U) << first;
  EXPECT_EQ(world.outcome(2), first);
}

}  // namespace
}  // namespace tandem::sync
