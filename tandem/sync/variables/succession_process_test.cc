// The owner's process of the variables is killed, and the others go on with its standby's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <sstream>
#include <thread>

#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/testing/temporary_folder.h"
#include "tandem/base/text.h"
#include "tandem/model/state_hash.h"
#include "tandem/sync/testing/served_world.h"

namespace tandem::sync {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using shm::ProcessWorld;
using shm::Voice;
using ::testing::AllOf;
using ::testing::HasSubstr;

// The gradient of shard k is 1 at place k, so that, with a learning rate of `aggregate` and RateScaling::kByGradients,
// the values are how many gradients of each were applied, times -1.
struct Places : torch::nn::Module {
  explicit Places(std::int64_t count) { values = register_parameter("values", torch::zeros({count})); }
  torch::Tensor values;
};

struct Counts {
  std::int64_t step = 0, offered = 0, dropped = 0, lost = 0;
};

void step_and_count(Replica& replica, SyncReplicas& strategy, Counts& counts, const Voice& voice) {
  auto& net = dynamic_cast<Places&>(replica.module());
  const int me = replica.placement().replica;
  strategy.open(me);
  net.values[me].backward();
  strategy.close(1, 0.0);
  const StepReport report = strategy.step(1.0, within(60s));
  if (report.step < counts.step) voice.say(concat("from step ", counts.step, " to ", report.step, "; "));
  counts.step = report.step;
  ++counts.offered;
  counts.dropped += report.verdict == Verdict::kDropped ? 1 : 0;
  counts.lost += report.verdict == Verdict::kLost ? 1 : 0;
}

// How a replica begins what it says last.
std::string end_of(int replica) { return concat("replica ", replica, " ends "); }

// What a survivor says last: its numbers, and the hash of what it has in the end; the owner says the totals of all, and
// the values.
void say_account(Replica& replica, SyncReplicas& strategy, const Counts& counts, const Voice& voice) {
  strategy.leave(within(60s));
  const int replicas = replica.placement().replicas;
  std::string text =
      concat(end_of(replica.placement().replica), counts.offered, " ", counts.dropped, " ", counts.lost, " ",
             counts.step, " ", model::state_sha256(replica.named_state()), " ", strategy.variables() != nullptr);
  if (SyncVariables* variables = strategy.variables()) {
    const std::vector<GradientTotals> totals = variables->take_account().replicas;
    for (int k = 0; k < replicas; ++k) {
      const GradientTotals& each = totals[static_cast<std::size_t>(k)];
      const double value = dynamic_cast<Places&>(replica.module()).values[k].item<double>();
      text += concat(" ", each.offered, " ", each.applied, " ", each.dropped, " ", value);
    }
  }
  voice.say(text + " end");
}

SyncWorld world_of(int replicas, int aggregate, int replicas_a_process = 1) {
  return {.shards = replicas,
          .replicas = replicas,
          .options = {.replicas_to_aggregate = aggregate,
                      .rate_scaling = RateScaling::kByGradients,
                      .on_death = OnDeath::kGoOn,
                      .standby = Standby::kAnotherRank,
                      .average_decay = 0.5},
          .build = [replicas](int) { return std::make_shared<Places>(replicas); },
          .optimizer = model::SgdOptions{.lr = static_cast<double>(aggregate)},
          .replicas_a_process = replicas_a_process};
}

struct Ended {
  Counts counts;
  std::string hash;
  std::vector<GradientTotals> totals{};  // of the owner
  std::vector<double> values{};
};

Ended ended(const std::string& outcome, int replica, int replicas) {
  const std::string mark = end_of(replica);
  Ended ended;
  const auto at = outcome.rfind(mark);
  EXPECT_TRUE(at != std::string::npos && outcome.ends_with(" end")) << outcome;
  if (at == std::string::npos) return ended;
  EXPECT_THAT(outcome, ::testing::Not(HasSubstr("from step"))) << "the step went back";
  std::istringstream in(outcome.substr(at + mark.size()));
  bool is_owner = false;
  in >> ended.counts.offered >> ended.counts.dropped >> ended.counts.lost >> ended.counts.step >> ended.hash >>
      is_owner;
  for (int k = 0; is_owner && k < replicas; ++k) {
    GradientTotals& each = ended.totals.emplace_back();
    in >> each.offered >> each.applied >> each.dropped >> ended.values.emplace_back();
  }
  EXPECT_TRUE(in) << outcome;
  return ended;
}

// All `survivors` have the same state, one of them owns the variables, and every gradient is accounted for: offered =
// applied + dropped + in flight at a death or at the end; none was applied twice.
void expect_accounted_for(ProcessWorld& world, int replicas, const std::vector<int>& survivors,
                          int replicas_a_process = 1) {
  std::vector<Ended> all(static_cast<std::size_t>(replicas));
  std::map<int, std::string> outcomes;
  for (const int rank : survivors) {
    const int process = rank / replicas_a_process;
    if (!outcomes.contains(process)) outcomes[process] = world.outcome(process);
  }
  const Ended* owner = nullptr;
  for (const int rank : survivors) {
    Ended& its = all[static_cast<std::size_t>(rank)] = ended(outcomes[rank / replicas_a_process], rank, replicas);
    EXPECT_EQ(its.hash, all[static_cast<std::size_t>(survivors.front())].hash);
    if (its.totals.empty()) continue;
    EXPECT_EQ(owner, nullptr) << "two processes own the variables";
    owner = &its;
  }
  ASSERT_NE(owner, nullptr);
  for (int k = 0; k < replicas; ++k) {
    const auto index = static_cast<std::size_t>(k);
    const GradientTotals& totals = owner->totals[index];
    EXPECT_EQ(owner->values[index], -static_cast<double>(totals.applied)) << "replica " << k;
    EXPECT_GE(totals.in_flight(), 0) << "replica " << k;
    if (std::find(survivors.begin(), survivors.end(), k) == survivors.end()) continue;
    const Counts& mine = all[index].counts;
    EXPECT_EQ(totals.offered, mine.offered) << "replica " << k;
    EXPECT_EQ(totals.dropped, mine.dropped) << "replica " << k;
    EXPECT_GE(totals.in_flight(), mine.lost) << "replica " << k;
  }
}

// Says that it has made a first step.
Counts begin(Replica& replica, SyncReplicas& strategy, const Voice& voice) {
  Counts counts;
  step_and_count(replica, strategy, counts, voice);
  voice.say("stepped; ");
  return counts;
}

void await_all_begun(ProcessWorld& world, int processes, const std::string& words = "stepped; ") {
  for (int process = 0; process < processes; ++process) EXPECT_TRUE(world.hears(process, words)) << world.said(process);
}

void kill_rank(ProcessWorld& world, int rank) {
  world.signal(rank, SIGKILL);
  EXPECT_THAT(world.outcome(rank), HasSubstr("signal 9"));
}

// Makes steps until `file` is there, and then some more.
void train_until(const fs::path& file, Replica& replica, SyncReplicas& strategy, Counts& counts, const Voice& voice) {
  while (!fs::exists(file)) step_and_count(replica, strategy, counts, voice);
  const std::int64_t then = counts.step;
  while (counts.step < then + 10) step_and_count(replica, strategy, counts, voice);
}

TEST(SuccessionProcessTest, AtWhateverInstantTheOwnerIsKilledTheOthersGoOn) {
  constexpr std::uint64_t kInstants = 20;
  std::int64_t lost = 0;
  for (std::uint64_t instant = 0; instant < kInstants; ++instant) {
    SCOPED_TRACE(concat("instant ", instant));
    Philox random(instant);
    const int replicas = 2 + static_cast<int>(random.below(3)), aggregate = 1 + static_cast<int>(random.below(5));
    const TemporaryFolder folder;
    ProcessWorld world =
        world_of(replicas, aggregate)
            .as_processes([path = folder.path()](Replica& replica, SyncReplicas& strategy, const Voice& voice) {
              Counts counts = begin(replica, strategy, voice);
              train_until(path / "killed", replica, strategy, counts, voice);
              say_account(replica, strategy, counts, voice);
            });
    await_all_begun(world, replicas);
    std::vector<int> survivors;
    for (int rank = 1; rank < replicas; ++rank) survivors.push_back(rank);
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(20'000)));
    kill_rank(world, 0);
    write_file(folder / "killed", "");
    expect_accounted_for(world, replicas, survivors);
    for (const int rank : survivors) lost += ended(world.said(rank), rank, replicas).counts.lost;
  }
  EXPECT_GT(lost, 0) << "nobody was told of a gradient that died with the owner";
}

// Whoever owns the variables dies, until one replica is left.
TEST(SuccessionProcessTest, OneAfterTheOtherTakesOver) {
  constexpr int kReplicas = 4;
  for (std::uint64_t instant = 0; instant < 5; ++instant) {
    SCOPED_TRACE(concat("instant ", instant));
    Philox random(instant);
    const TemporaryFolder folder;
    ProcessWorld world =
        world_of(kReplicas, 3)
            .as_processes([path = folder.path()](Replica& replica, SyncReplicas& strategy, const Voice& voice) {
              Counts counts = begin(replica, strategy, voice);
              for (int death = 0; death < kReplicas - 1; ++death) {
                train_until(path / concat(death), replica, strategy, counts, voice);
                if (replica.placement().replica != death + 1 || !strategy.variables()) continue;
                const auto standby = strategy.standby();
                voice.say(concat("owner at ", death, ", standby ", standby ? concat(*standby) : "none", "; "));
              }
              say_account(replica, strategy, counts, voice);
            });
    await_all_begun(world, kReplicas);
    for (int death = 0; death < kReplicas - 1; ++death) {
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(5'000)));
      kill_rank(world, death);
      write_file(folder / concat(death), "");
      const std::string standby = death + 2 < kReplicas ? concat(death + 2) : "none";
      EXPECT_TRUE(world.hears(death + 1, concat("owner at ", death, ", standby ", standby, "; ")))
          << world.said(death + 1);
    }
    expect_accounted_for(world, kReplicas, {kReplicas - 1});
  }
}

// It is the standby of the new owner by then, and does not wait for that one to end.
TEST(SuccessionProcessTest, WhoNoticesLateFindsTheOwnerThatMadeItTheStandby) {
  constexpr int kReplicas = 3;
  const TemporaryFolder folder;
  ProcessWorld world =
      world_of(kReplicas, 1)
          .as_processes([path = folder.path()](Replica& replica, SyncReplicas& strategy, const Voice& voice) {
            Counts counts = begin(replica, strategy, voice);
            const int me = replica.placement().replica;
            while (me == 2 && !fs::exists(path / "1 owns")) std::this_thread::sleep_for(1ms);
            while (me == 1 && !strategy.variables()) step_and_count(replica, strategy, counts, voice);
            if (me == 1) write_file(path / "1 owns", "");
            train_until(path / "1 owns", replica, strategy, counts, voice);
            say_account(replica, strategy, counts, voice);
          });
  await_all_begun(world, kReplicas);
  kill_rank(world, 0);
  expect_accounted_for(world, kReplicas, {1, 2});
}

// A step is kept by the next one that lives before it counts.
TEST(SuccessionProcessTest, AStandbyThatDiesIsReplacedBeforeTheOwnerDies) {
  constexpr int kReplicas = 4;
  const TemporaryFolder folder;
  ProcessWorld world =
      world_of(kReplicas, 2)
          .as_processes([path = folder.path()](Replica& replica, SyncReplicas& strategy, const Voice& voice) {
            Counts counts = begin(replica, strategy, voice);
            train_until(path / "standby is dead", replica, strategy, counts, voice);
            if (strategy.variables()) voice.say(concat("standby ", strategy.standby().value_or(-1), "; "));
            train_until(path / "owner is dead", replica, strategy, counts, voice);
            say_account(replica, strategy, counts, voice);
          });
  await_all_begun(world, kReplicas);
  kill_rank(world, 1);
  write_file(folder / "standby is dead", "");
  EXPECT_TRUE(world.hears(0, "standby 2; ")) << world.said(0);
  kill_rank(world, 0);
  write_file(folder / "owner is dead", "");
  expect_accounted_for(world, kReplicas, {2, 3});
}

// When replicas leave, and wait for each other to have left, the owner's death is survived, too.
TEST(SuccessionProcessTest, AnOwnerThatDiesAtTheEndIsSurvived) {
  constexpr int kReplicas = 3;
  for (std::uint64_t instant = 0; instant < 20; ++instant) {
    SCOPED_TRACE(concat("instant ", instant));
    Philox random(instant);
    ProcessWorld world = world_of(kReplicas, 1 + static_cast<int>(random.below(4)))
                             .as_processes([](Replica& replica, SyncReplicas& strategy, const Voice& voice) {
                               Counts counts = begin(replica, strategy, voice);
                               const int more = 5 + 10 * replica.placement().replica;
                               for (int i = 0; i < more; ++i) step_and_count(replica, strategy, counts, voice);
                               strategy.leave(within(60s));
                               voice.say(model::state_sha256(replica.named_state()));
                             });
    await_all_begun(world, kReplicas);
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(8'000)));
    world.signal(0, SIGKILL);
    const std::string first = world.outcome(1);
    EXPECT_EQ(first.size(), 64U + 9U) << first;
    EXPECT_EQ(world.outcome(2), first);
  }
}

TEST(SuccessionProcessTest, OwnerAndStandbyThatDieTogetherArePeerLost) {
  const TemporaryFolder folder;
  ProcessWorld world =
      world_of(3, 2).as_processes([path = folder.path()](Replica& replica, SyncReplicas& strategy, const Voice& voice) {
        Counts counts = begin(replica, strategy, voice);
        if (replica.placement().replica == 2) {
          while (!fs::exists(path / "dead")) std::this_thread::sleep_for(1ms);
        }
        train_until(path / "never", replica, strategy, counts, voice);
      });
  await_all_begun(world, 3);
  for (const int rank : {0, 1}) world.signal(rank, SIGSTOP);
  for (const int rank : {0, 1}) world.signal(rank, SIGKILL);
  for (const int rank : {0, 1}) (void)world.outcome(rank);
  write_file(folder / "dead", "");
  EXPECT_THAT(world.outcome(2), AllOf(HasSubstr("its standby has died"), HasSubstr("the last checkpoint")));
}

TEST(SuccessionProcessTest, WithoutADeathTheBitsAreThoseWithoutAStandby) {
  std::vector<std::string> hashes;
  for (const Standby standby : {Standby::kNone, Standby::kAnotherRank}) {
    const SyncWorld of_processes{.shards = 4,
                                 .replicas = 2,
                                 .options = {.on_death = OnDeath::kGoOn, .standby = standby, .average_decay = 0.5},
                                 .build = [](int) { return std::make_shared<LinearAndTable>(); },
                                 .optimizer = model::AdamOptions{.lr = 0.1}};
    ProcessWorld world = of_processes.as_processes([](Replica& replica, SyncReplicas& strategy, const Voice& voice) {
      for (int i = 0; i < 5; ++i) (void)step_linear_and_table(replica, strategy);
      (void)strategy.whole_state(within(60s));
      for (int i = 0; i < 5; ++i) (void)step_linear_and_table(replica, strategy);
      strategy.leave(within(60s));
      voice.say(model::state_sha256(replica.named_state()));
    });
    for (const std::string& outcome : world.outcomes()) hashes.push_back(outcome);
  }
  EXPECT_EQ(hashes[0].size(), 64U) << hashes[0];
  EXPECT_THAT(hashes, ::testing::Each(hashes[0]));
}

// A standby is never of the owner's process.
TEST(SuccessionProcessTest, AProcessTakesAllItsReplicasAlong) {
  constexpr int kReplicas = 6, kEach = 2;
  for (std::uint64_t instant = 0; instant < 5; ++instant) {
    SCOPED_TRACE(concat("instant ", instant));
    Philox random(instant);
    const TemporaryFolder folder;
    ProcessWorld world =
        world_of(kReplicas, 1 + static_cast<int>(random.below(4)), kEach)
            .as_processes([path = folder.path()](Replica& replica, SyncReplicas& strategy, const Voice& voice) {
              Counts counts = begin(replica, strategy, voice);
              for (int death = 0; death < 2; ++death) {
                train_until(path / concat(death), replica, strategy, counts, voice);
                if (!strategy.variables()) continue;
                voice.say(concat(replica.placement().replica, " owns after ", death, ", standby ",
                                 strategy.standby().value_or(-1), "; "));
              }
              say_account(replica, strategy, counts, voice);
            });
    await_all_begun(world, kReplicas / kEach, "stepped; stepped; ");
    for (int death = 0; death < 2; ++death) {
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(5'000)));
      kill_rank(world, death);
      write_file(folder / concat(death), "");
      const std::string expected = concat(2 * death + 2, " owns after ", death, ", standby ", death == 0 ? 4 : -1, ";");
      EXPECT_TRUE(world.hears(death + 1, expected)) << world.said(death + 1);
    }
    expect_accounted_for(world, kReplicas, {4, 5}, kEach);
  }
}

// To the others it is dead, also to the one in its process, which goes on with those that another replica keeps.
TEST(SuccessionProcessTest, AnOwnerThatFailsIsSurvivedWhileItsProcessLives) {
  constexpr int kReplicas = 4, kEach = 2;
  for (const int aggregate : {1, 2, 3}) {
    SCOPED_TRACE(concat("aggregate ", aggregate));
    const TemporaryFolder folder;
    ProcessWorld world =
        world_of(kReplicas, aggregate, kEach)
            .as_processes([path = folder.path()](Replica& replica, SyncReplicas& strategy, const Voice& voice) {
              Counts counts = begin(replica, strategy, voice);
              if (replica.placement().replica == 0) {
                while (counts.step < 20 || !fs::exists(path / "begun"))
                  step_and_count(replica, strategy, counts, voice);
                throw RunError("its disk is full; ");
              }
              train_until(path / "failed", replica, strategy, counts, voice);
              say_account(replica, strategy, counts, voice);
            });
    await_all_begun(world, kReplicas / kEach, "stepped; stepped; ");
    write_file(folder / "begun", "");
    EXPECT_TRUE(world.hears(0, "its disk is full; ")) << world.said(0);
    write_file(folder / "failed", "");
    expect_accounted_for(world, kReplicas, {1, 2, 3}, kEach);
  }
}

TEST(SuccessionProcessTest, ReplicasOfOneProcessAreRefused) {
  const std::vector<std::string> outcomes =
      run_synchronous(world_of(2, 2), [](Replica&, SyncReplicas&) { FAIL() << "it began"; });
  for (const std::string& outcome : outcomes)
    EXPECT_THAT(outcome, HasSubstr("all 2 replicas are in one; start at least two"));
}

}  // namespace
}  // namespace tandem::sync
