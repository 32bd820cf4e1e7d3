// What a second process has of the variables, and when. Owner and standby share a process here.
#include "tandem/sync/variables/succession.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tandem/base/error.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/testing/within.h"
#include "tandem/sync/testing/replica_world.h"
#include "tandem/sync/testing/served_world.h"

namespace tandem::sync {
namespace {

using namespace std::chrono_literals;

// A replica, and its process's part of the succession.
struct Process {
  Process(int me, int replicas, const SyncReplicasOptions& options, std::chrono::milliseconds patience)
      : replica({.replica = me, .replicas = replicas, .shards = replicas, .mine = {me, me + 1}},
                std::make_shared<LinearAndTable>(), 1, {model::AdamOptions{.lr = 0.1}}),
        variables(std::make_shared<SyncVariables>(replica, options)) {
    Succession::Options mine{.me = me, .access = net::Reach::kEverywhere, .names = {}, .patience = patience};
    for (int each = 0; each < replicas; ++each) mine.names.push_back(concat("replica ", each));
    succession = std::make_unique<Succession>(variables, mine);
  }

  Replica replica;
  std::shared_ptr<SyncVariables> variables;
  std::unique_ptr<Succession> succession;
};

// As if on the hosts, and in the processes, that these letters are for; without them on hosts that nobody knows, each
// in a process of its own.
std::vector<std::unique_ptr<Process>> processes(int count, SyncReplicasOptions options = {},
                                                const std::string& hosts = "", const std::string& of_process = "",
                                                std::chrono::milliseconds patience = 60s) {
  options.on_death = OnDeath::kGoOn;
  options.average_decay = 0.5;
  std::vector<std::unique_ptr<Process>> all;
  std::vector<Succession::Door> doors;
  for (int me = 0; me < count; ++me) {
    all.push_back(std::make_unique<Process>(me, count, options, patience));
    const auto letter = [me](const std::string& of) {
      return of.empty() ? "" : of.substr(static_cast<std::size_t>(me), 1);
    };
    doors.push_back({all.back()->succession->contact(), letter(hosts), letter(of_process)});
  }
  for (std::size_t me = 0; me < all.size(); ++me) {
    std::vector<Succession::Door> its = doors;
    for (std::size_t other = 0; other < all.size(); ++other) {
      if (other == me || (!its[me].process.empty() && its[other].process == its[me].process))
        its[other].variables = all[other]->variables;
    }
    all[me]->succession->meet(std::move(its));
  }
  all.front()->succession->own();
  return all;
}

std::vector<at::Tensor> state_of(SyncVariables& variables, KeptRecord* record = nullptr) {
  std::vector<at::Tensor> copies;
  variables.show_whole([&](const KeptRecord& now, const std::vector<at::Tensor>& state) {
    for (const at::Tensor& each : state) copies.push_back(each.clone());
    if (record != nullptr) *record = now;
  });
  return copies;
}

bool same_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const at::Tensor& x, const at::Tensor& y) { return at::equal(x, y); });
}

// Offers a dense and a sparse gradient of the step's own numbers.
StepReport offer(Process& process, VariableLink& link, int number) {
  model::FlatParameters::Gradients gradients = process.variables->make_gradients();
  for (std::size_t b = 0; b < gradients.flat.size(); ++b) {
    if (!gradients.flat[b].defined()) {
      const at::Tensor row = at::full({1, 1}, number % 5, at::kLong), values = at::full({1, 2}, 0.5 + number);
      gradients.sparse[b][0] = at::sparse_coo_tensor(row, values, {5, 2}).coalesce();
      continue;
    }
    gradients.dense[b].copy_(at::arange(1, gradients.dense[b].numel() + 1) / (1.0 + number));
    gradients.presence[b].fill_(1);
  }
  return link.exchange({.replica = process.replica.placement().replica,
                        .learning_rate = 0.1 / (1 + number),
                        .lr_factor = 0.5,
                        .tally = {.weight = 1, .shards = 1, .loss = 0, .left = 0, .rate = 0.5}},
                       &gradients, within(60s));
}

TEST(SuccessionTest, TheStandbyHasTheBitsOfEachStepWhenItsTokensAreGivenOut) {
  const auto all = processes(2, {.mean = {.max_grad_norm = 1.0}, .replicas_to_aggregate = 1});
  EXPECT_EQ(all[0]->succession->standby(), 1);
  const std::unique_ptr<VariableLink> link = link_within(all[0]->variables, all[0]->replica);
  (void)link->resume(within(60s));
  std::vector<at::Tensor> before = state_of(*all[1]->variables);
  for (int number = 0; number < 5; ++number) {
    EXPECT_EQ(offer(*all[0], *link, number).verdict, Verdict::kApplied);
    const std::vector<at::Tensor> kept = state_of(*all[1]->variables);
    EXPECT_FALSE(same_bits(kept, before)) << number;
    EXPECT_TRUE(same_bits(kept, state_of(*all[0]->variables))) << number;
    before = kept;
  }
}

// Beginning anew, and after a standby has died: as a whole.
TEST(SuccessionTest, WhoeverIsTheStandbyHasTheWholeState) {
  auto all = processes(3, {.replicas_to_aggregate = 1});
  const std::unique_ptr<VariableLink> link = link_within(all[0]->variables, all[0]->replica);
  (void)link->resume(within(60s));
  (void)offer(*all[0], *link, 0);
  all[1].reset();
  (void)offer(*all[0], *link, 1);
  EXPECT_EQ(all[0]->succession->standby(), 2);
  EXPECT_TRUE(same_bits(state_of(*all[2]->variables), state_of(*all[0]->variables)));
  (void)offer(*all[0], *link, 2);
  EXPECT_TRUE(same_bits(state_of(*all[2]->variables), state_of(*all[0]->variables)));
  all[2].reset();
  EXPECT_EQ(offer(*all[0], *link, 3).step, 4) << "it goes on alone";
  EXPECT_EQ(all[0]->succession->standby(), std::nullopt);
}

TEST(SuccessionTest, TheStandbyGoesOnFromTheStepThatItHas) {
  auto all = processes(3, {.replicas_to_aggregate = 1});
  {
    const std::unique_ptr<VariableLink> link = link_within(all[0]->variables, all[0]->replica);
    (void)link->resume(within(60s));
    for (int number = 0; number < 3; ++number) (void)offer(*all[0], *link, number);
  }
  const std::vector<at::Tensor> last = state_of(*all[0]->variables);
  EXPECT_FALSE(all[1]->succession->is_owner());
  all[0].reset();
  EXPECT_TRUE(all[1]->succession->await_here(within(60s)));
  EXPECT_FALSE(all[2]->succession->is_owner());
  EXPECT_EQ(all[1]->succession->standby(), 2) << "before anybody is let in";
  KeptRecord record;
  EXPECT_TRUE(same_bits(state_of(*all[1]->variables, &record), last));
  EXPECT_EQ(record.step, 3);
  EXPECT_EQ(record.seats[0].record.totals.applied, 3);
  EXPECT_EQ(record.seats[0].record.is_present, 0);
  EXPECT_EQ(record.seats[2].record.is_present, 1);
  const std::unique_ptr<VariableLink> link = link_within(all[1]->variables, all[1]->replica);
  EXPECT_EQ(link->resume(within(60s)), 3);
  EXPECT_EQ(offer(*all[1], *link, 3).step, 4);
  EXPECT_TRUE(same_bits(state_of(*all[2]->variables), state_of(*all[1]->variables)));
}

TEST(SuccessionTest, AStandbyIsOnAnotherHostWhereThereIsOneAndNeverOfTheSameProcess) {
  const auto standby_after = [](const std::string& hosts, const std::vector<int>& dead,
                                const std::string& of_process = "") {
    auto all = processes(4, {.replicas_to_aggregate = 1}, hosts, of_process);
    for (const int each : dead) all[static_cast<std::size_t>(each)].reset();
    for (const auto& each : all) {
      if (!each || (each != all.front() && !each->succession->await_here(within(60s)))) continue;
      const std::unique_ptr<VariableLink> link = link_within(each->variables, each->replica);
      (void)link->resume(within(60s));
      (void)offer(*each, *link, 0);  // whose step has the standby confirmed
      return concat(each->replica.placement().replica, " to ", each->succession->standby().value_or(-1));
    }
    return std::string();
  };
  EXPECT_EQ(standby_after("aabb", {}), "0 to 2");
  EXPECT_EQ(standby_after("aabb", {2}), "0 to 3");
  EXPECT_EQ(standby_after("aabb", {2, 3}), "0 to 1") << "of the same host, for there is no other";
  EXPECT_EQ(standby_after("aabb", {0}), "2 to 1");
  EXPECT_EQ(standby_after("aabb", {1, 0}), "2 to 3") << "a whole host";
  EXPECT_EQ(standby_after("", {}), "0 to 1");
  EXPECT_EQ(standby_after("", {}, "ppqq"), "0 to 2");
  EXPECT_EQ(standby_after("", {2}, "ppqq"), "0 to 3") << "whose process lives";
  EXPECT_EQ(standby_after("", {2, 3}, "ppqq"), "0 to -1") << "nobody";
  EXPECT_EQ(standby_after("", {1, 0}, "ppqq"), "2 to -1");
  EXPECT_EQ(standby_after("aaab", {}, "ppqr"), "0 to 3");
}

// It is told what the record has, what is lost is in flight, and nothing is counted twice.
TEST(SuccessionTest, AReplicaLearnsWhatBecameOfItsLastGradient) {
  auto all = processes(2, {.replicas_to_aggregate = 1});
  {
    const std::unique_ptr<VariableLink> first = link_within(all[0]->variables, all[0]->replica),
                                        second = link_within(all[0]->variables, all[1]->replica);
    (void)first->resume(within(60s));
    (void)second->resume(within(60s));
    (void)offer(*all[0], *first, 0);
    EXPECT_EQ(offer(*all[1], *second, 1).verdict, Verdict::kDropped);
    EXPECT_EQ(offer(*all[1], *second, 1).verdict, Verdict::kApplied);
  }
  all[0].reset();
  ASSERT_TRUE(all[1]->succession->await_here(within(60s)));
  SyncVariables& variables = *all[1]->variables;
  const auto fate = [&](std::int64_t offered, std::int64_t dropped) {
    return variables.recall(1, {.offered = offered, .dropped = dropped, .is_unanswered = true});
  };
  EXPECT_EQ(fate(2, 1).verdict, Verdict::kApplied);
  EXPECT_EQ(fate(2, 1).part_of, 2);
  EXPECT_EQ(fate(1, 0).verdict, Verdict::kDropped);
  EXPECT_EQ(fate(1, 0).staleness, 1);
  EXPECT_EQ(variables.take_account().replicas[1].in_flight(), 0);
  EXPECT_EQ(fate(3, 1).verdict, Verdict::kLost);
  EXPECT_EQ(variables.take_account().replicas[1].offered, 3);
  EXPECT_EQ(variables.take_account().replicas[1].applied, 1);
  EXPECT_EQ(variables.take_account().replicas[1].dropped, 1);
  EXPECT_EQ(variables.take_account().replicas[1].in_flight(), 1);
}

void expect_refused(const SyncReplicasOptions& options, const std::string& why_none_survive, const std::string& fault) {
  const std::vector<std::unique_ptr<comm::Group>> groups = comm::make_local_group(2);
  groups[0]->set_survival({.why_none = why_none_survive});
  Replica replica(place_on_cpu(2, 2)[0], std::make_shared<Linear>(), 1, {model::SgdOptions{.lr = 0.5}});
  EXPECT_THAT([&] { SyncReplicas(replica, *groups[0], options); },
              ::testing::ThrowsMessage<ConfigError>(::testing::HasSubstr(fault)));
}

TEST(SuccessionTest, WhatNobodySurvivesIsRefusedBeforeTheStart) {
  expect_refused({.standby = Standby::kAnotherRank}, "", "OnDeath::kEnd ends the run");
  expect_refused({.on_death = OnDeath::kGoOn}, "the launcher ends all", "the launcher ends all; or give OnDeath::kEnd");
}

// The end of the owner is noticed before the state that it sent has made this a standby.
TEST(SuccessionTest, WhoseOwnerEndsWhileItAdoptsTheStateTakesOver) {
  auto all = processes(3, {}, "", "", 1s);
  all[1].reset();
  const std::vector<at::Tensor> state = state_of(*all[0]->variables);
  all[2]->variables->show_whole([&](const KeptRecord&, const auto&) {
    EXPECT_THROW(all[0]->succession->own(), DeadlineExceeded);  // what it sent is not adopted meanwhile
    all[0].reset();
  });
  EXPECT_TRUE(eventually([&] { return all[2]->succession->is_owner(); }));
  EXPECT_EQ(all[2]->succession->ask_where(2, {}), kHere);
  EXPECT_TRUE(same_bits(state_of(*all[2]->variables), state));
}

}  // namespace
}  // namespace tandem::sync
