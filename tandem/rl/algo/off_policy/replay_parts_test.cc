// A run with a replay whose full segments are parts of their own, and its checkpoints beside each other.
#include "tandem/rl/algo/off_policy/replay_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tandem/learner/testing/local_ranks.h"
#include "tandem/rl/algo/testing/small_off_policy.h"

namespace tandem::rl {
namespace {

using rl::testing::small_sac;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Segments have 51 KB, 2048 rows; few updates fill some, and the replay is overwritten after 2^16 rows of a shard.
constexpr std::int64_t kRowsOfAShard = 1 << 16;
constexpr int kUpdatesToOverwrite = 18;

OffPolicySetup large_replay(int shards, int replicas, const learner::Ranks& ranks = {}) {
  OffPolicySetup setup = small_sac({.shards = shards, .replicas = replicas});
  setup.ranks = ranks;
  setup.rng = model::RngOrder::kUnordered;  // other ranks of this process draw while they are built
  setup.off_policy.replay_size = shards * kRowsOfAShard;
  setup.off_policy.num_envs = 4 * shards;
  setup.off_policy.rollout_steps = 1024;
  setup.off_policy.train_every = 256;
  return setup;
}

std::set<std::string> names_of(const learner::StateAside& aside) {
  std::set<std::string> names(aside.kept.begin(), aside.kept.end());
  for (const auto& [name, tensors] : aside.parts) names.insert(name);
  return names;
}

std::string hash_of(const learner::StateParts& parts) {
  model::NamedTensors all;
  for (const auto& [part, tensors] : parts) append(part + "/", tensors, all);
  return model::state_sha256(std::move(all));
}

// The checkpoint of a state, which keeps parts of the one before.
learner::StateParts whole_of(learner::StateAside aside, const learner::StateParts& before) {
  for (const std::string& name : aside.kept) aside.parts.emplace_back(name, learner::part_of(before, name));
  return aside.parts;
}

std::string goes_on(const learner::StateParts& saved, OffPolicySetup setup) {
  OffPolicyRun run(std::move(setup));
  EXPECT_EQ(run.load([&](const std::string& name) { return learner::part_of(saved, name); }),
            ExperienceWorker::Resumed::kExactly);
  (void)run.update();
  return run.state_sha256();
}

TEST(ReplayPartsTest, OnlyWhatIsNewIsGivenAgain) {
  OffPolicyRun run(large_replay(1, 1));
  for (int i = 0; i < 3; ++i) (void)run.update();
  const learner::StateAside first = *run.save_aside({});
  EXPECT_THAT(first.kept, IsEmpty());
  EXPECT_TRUE(names_of(first).contains("replay-0.steps.0"));
  for (int i = 0; i < 3; ++i) (void)run.update();
  const learner::StateAside second = *run.save_aside(names_of(first));
  EXPECT_THAT(second.kept, Each(HasSubstr("replay-0.steps.")));
  EXPECT_GE(second.kept.size(), 5U);
  for (const std::string& name : second.kept) {
    EXPECT_TRUE(names_of(first).contains(name)) << name;
    EXPECT_EQ(std::ranges::count(second.parts, name, &learner::StateParts::value_type::first), 0) << name;
  }
  const std::string last = *names_of(second).rbegin();
  EXPECT_FALSE(names_of(first).contains("replay-0.steps.10"));
  EXPECT_TRUE(names_of(second).contains("replay-0.steps.10")) << last;
}

// The replay is overwritten meanwhile, and all networks learn.
TEST(ReplayPartsTest, WhatWasSavedAsideStaysAsItWasWhileTheRunGoesOn) {
  OffPolicyRun run(large_replay(1, 1));
  for (int i = 0; i < 4; ++i) (void)run.update();
  const learner::StateAside saved = *run.save_aside({});
  const std::string before = hash_of(saved.parts);
  std::string after_one;
  for (int i = 0; i < kUpdatesToOverwrite; ++i) {
    (void)run.update();
    if (i == 0) after_one = run.state_sha256();
  }
  EXPECT_EQ(hash_of(saved.parts), before);
  EXPECT_EQ(goes_on(saved.parts, large_replay(1, 1)), after_one);
  const learner::StateAside later = *run.save_aside(names_of(saved));
  EXPECT_THAT(later.kept, IsEmpty()) << "all that was saved is overwritten";
}

TEST(ReplayPartsTest, ARunGoesOnFromACheckpointThatKeepsPartsOfAnotherOnAnyTopology) {
  OffPolicyRun run(large_replay(2, 1));
  for (int i = 0; i < 2; ++i) (void)run.update();
  const learner::StateParts first = run.save_aside({})->parts;
  (void)run.update();
  const learner::StateParts second = whole_of(*run.save_aside(names_of({.parts = first, .kept = {}})), first);
  (void)run.update();
  const std::string expected = run.state_sha256();
  EXPECT_EQ(goes_on(second, large_replay(2, 1)), expected);
  EXPECT_EQ(goes_on(second, large_replay(2, 2)), expected);
  std::vector<std::string> of_ranks(2);
  std::vector<std::jthread> threads;
  const std::vector<learner::Ranks> members = learner::make_local_ranks(2);
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    threads.emplace_back([&, rank] {
      OffPolicyRun its(large_replay(2, 1, members[rank]));
      (void)its.load([&](const std::string& name) {
        EXPECT_EQ(rank, 0U) << "only the leader reads";
        return learner::part_of(second, name);
      });
      // What the ranks save beside the first checkpoint is what one process saved; the leader's names count.
      const std::set<std::string> held =
          rank == 0 ? names_of({.parts = first, .kept = {}}) : std::set<std::string>{"replay-1.steps.0"};
      EXPECT_EQ(hash_of(whole_of(*its.save_aside(held), first)), hash_of(second));
      (void)its.update();
      of_ranks[rank] = its.state_sha256();
    });
  }
  threads.clear();
  EXPECT_THAT(of_ranks, Each(expected));
}

}  // namespace
}  // namespace tandem::rl
