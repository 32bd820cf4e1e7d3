#include "tandem/rl/rollout/alternating_rollout.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/testing/wrapped_envs.h"
#include "tandem/rl/policy/actor/actor.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {
namespace {

constexpr int kTurnSteps = 40, kGroupEnvs = 3;

using Hook = std::function<void(int group)>;

class HookedEnvs final : public testing::WrappedEnvs {
 public:
  HookedEnvs(int group, Hook& hook)
      : WrappedEnvs(EnvRegistry::native().make("CartPole-v1", kGroupEnvs)), group_(group), hook_(hook) {}
  void step(const EnvActions& actions, const EnvArrays& out) override {
    if (hook_) hook_(group_);
    WrappedEnvs::step(actions, out);
  }

 private:
  const int group_;
  Hook& hook_;
};

class HookedActor final : public Actor {
 public:
  HookedActor(std::unique_ptr<Actor> inner, int group, Hook& hook)
      : inner_(std::move(inner)), group_(group), hook_(hook) {}
  void refresh() override { inner_->refresh(); }
  void act(const std::vector<at::Tensor>& observation, const at::Tensor& mask, const Decisions& out) override {
    if (hook_) hook_(group_);
    inner_->act(observation, mask, out);
  }
  void episodes_ended(std::span<const std::uint8_t> done) override { inner_->episodes_ended(done); }
  void evaluate(const std::vector<at::Tensor>& observation, const at::Tensor& state, float* value) override {
    inner_->evaluate(observation, state, value);
  }
  [[nodiscard]] std::vector<std::byte> save() const override { return inner_->save(); }
  void load(std::span<const std::byte> state) override { inner_->load(state); }

 private:
  const std::unique_ptr<Actor> inner_;
  const int group_;
  Hook& hook_;
};

// CartPole in several groups. The hooks are called before each step of a group's environments, and of the policy for
// it.
struct Groups {
  Groups(int groups, Stepping stepping) : Groups(groups, groups, stepping) {}
  Groups(int groups, int splits, Stepping stepping) {
    std::vector<std::unique_ptr<RolloutWorker>> workers;
    for (int i = 0; i < groups; ++i) {
      auto envs = std::make_unique<HookedEnvs>(i, before_step);
      auto actor = std::make_unique<HookedActor>(make_actor(policy, {}, kGroupEnvs, 5, i), i, before_act);
      workers.push_back(std::make_unique<RolloutWorker>(
          std::move(envs), std::move(actor), RolloutOptions{.steps = kTurnSteps, .sequences = {}, .normalizer = {}},
          i * kGroupEnvs));
      workers.back()->reset(9);
      fragments.push_back(workers.back()->make_fragment());
    }
    rollout.emplace(std::move(workers), splits, stepping, "envs", SpinBudget{});
  }
  void collect() { rollout->collect(normalizers, fragments); }

  const Spec spec = EnvRegistry::native().make("CartPole-v1", 1)->spec();
  const Normalizers normalizers{spec, {}};
  MlpPolicy policy{spec, MlpPolicyOptions{.hidden = {16}}, at::detail::createCPUGenerator(4)};
  Hook before_step, before_act;
  std::vector<Fragment> fragments;
  std::optional<AlternatingRollout> rollout;
};

void expect_equal(const Fragment& a, const Fragment& b) {
  EXPECT_TRUE(at::equal(a.observation[0], b.observation[0]));
  EXPECT_TRUE(at::equal(a.action, b.action));
  EXPECT_TRUE(at::equal(a.log_prob, b.log_prob));
  EXPECT_TRUE(at::equal(a.value, b.value));
  EXPECT_TRUE(at::equal(a.reward, b.reward));
  EXPECT_TRUE(at::equal(a.done, b.done));
}

TEST(AlternatingRolloutTest, WhateverTheTimingTheFragmentsAreThoseOfOneThread) {
  for (const auto& [groups, splits] : {std::pair{1, 1}, {2, 2}, {3, 3}, {4, 2}, {6, 2}, {6, 3}}) {
    Groups in_turn(groups, splits, Stepping::kInTurn), threads(groups, splits, Stepping::kOwnThreads);
    std::vector<Philox> delays;
    for (int i = 0; i < groups; ++i) delays.emplace_back(17, static_cast<std::uint64_t>(i));
    threads.before_step = [&](int group) {
      std::this_thread::sleep_for(std::chrono::microseconds(delays[static_cast<std::size_t>(group)].below(200)));
    };
    for (int fragment = 0; fragment < 3; ++fragment) {
      in_turn.collect();
      threads.collect();
      for (std::size_t i = 0; i < threads.fragments.size(); ++i)
        expect_equal(threads.fragments[i], in_turn.fragments[i]);
    }
    EXPECT_GT(threads.fragments[0].done.sum().item<int>(), 0);
  }
}

// A group is what it would be alone.
TEST(AlternatingRolloutTest, GroupsDoNotSeeEachOther) {
  Groups one(1, Stepping::kInTurn), three(3, Stepping::kOwnThreads);
  one.collect();
  three.collect();
  expect_equal(three.fragments[0], one.fragments[0]);
  EXPECT_FALSE(at::equal(three.fragments[1].action, one.fragments[0].action)) << "a random stream each";
}

// Which groups step together decides when they do, and not what they see.
TEST(AlternatingRolloutTest, HoweverTheyAreSplitGroupsHaveTheSameFragments) {
  Groups whole(4, 1, Stepping::kOwnThreads), halves(4, 2, Stepping::kOwnThreads), quarters(4, 4, Stepping::kOwnThreads);
  for (int fragment = 0; fragment < 2; ++fragment) {
    for (Groups* groups : {&whole, &halves, &quarters}) groups->collect();
    for (std::size_t i = 0; i < 4; ++i) {
      expect_equal(halves.fragments[i], whole.fragments[i]);
      expect_equal(quarters.fragments[i], whole.fragments[i]);
    }
  }
}

TEST(AlternatingRolloutTest, GroupsOfOneSplitStepOnOneThread) {
  Groups world(4, 2, Stepping::kOwnThreads);
  std::array<std::thread::id, 4> where;
  world.before_step = [&](int group) { where[static_cast<std::size_t>(group)] = std::this_thread::get_id(); };
  world.collect();
  EXPECT_EQ(where[0], where[2]);
  EXPECT_EQ(where[1], where[3]);
  EXPECT_NE(where[0], where[1]);
  EXPECT_NE(where[0], std::this_thread::get_id());
}

TEST(AlternatingRolloutTest, SplitsHaveEquallyManyGroups) {
  EXPECT_THROW(Groups(3, 2, Stepping::kInTurn), InvariantError);
}

// The environments of the first group do not return from a step before the policy acts for the second, and the policy
// does not return before they are inside their step: one after the other, neither would ever end.
TEST(AlternatingRolloutTest, OneHalfStepsWhileThePolicyActsForTheOther) {
  Groups world(2, Stepping::kOwnThreads);
  std::atomic<int> steps_begun{0}, acts_begun{0};
  std::atomic<bool> alone{false};
  world.before_step = [&](int group) {
    if (group != 0) return;
    const int step = ++steps_begun;
    if (!eventually([&] { return acts_begun >= step || alone; })) alone = true;
  };
  world.before_act = [&](int group) {
    if (group != 1) return;
    const int act = ++acts_begun;
    if (!eventually([&] { return steps_begun >= act || alone; })) alone = true;
  };
  world.collect();
  EXPECT_FALSE(alone) << "in step " << steps_begun << " of one, " << acts_begun << " of the other";
  EXPECT_EQ(steps_begun, kTurnSteps);
  EXPECT_EQ(acts_begun, kTurnSteps);
}

TEST(AlternatingRolloutTest, TheOnlyWaitsAreForTheGroupWhoseTurnItIs) {
  Groups world(2, Stepping::kOwnThreads);
  std::atomic<bool> go_on{false};
  std::atomic<int> steps_of_second{0};
  world.before_step = [&](int group) {
    if (group == 1) ++steps_of_second;
    if (group != 0) return;
    EXPECT_TRUE(eventually([&] { return go_on.load(); }));
  };
  std::jthread worker([&] { world.collect(); });
  EXPECT_TRUE(eventually([&] { return steps_of_second == 1 && world.rollout->waits_for(0) && world.rollout->idle(1); }))
      << "the second has stepped once and has to wait for its turn";
  EXPECT_EQ(steps_of_second, 1);
  EXPECT_FALSE(world.rollout->waits_for(1));
  go_on = true;
}

// The second group's environments are inside a step when those of the first fail: its memory is not given up before.
TEST(AlternatingRolloutTest, AFailureComesOnceNoGroupIsInsideAStep) {
  Groups world(2, Stepping::kOwnThreads);
  std::atomic<bool> inside{false}, returned{false};
  world.before_step = [&](int group) {
    if (group == 0) {
      EXPECT_TRUE(eventually([&] { return inside.load(); }));
      throw EnvError("the pole broke");
    }
    inside = true;
    EXPECT_TRUE(eventually([&] { return world.rollout->waits_for(1); })) << "all steps end before the failure is told";
    returned = true;
  };
  try {
    world.collect();
    FAIL();
  } catch (const EnvError& error) {
    EXPECT_STREQ(error.what(), "the pole broke");
  }
  EXPECT_TRUE(returned);
}

TEST(AlternatingRolloutTest, OneSplitHasNoThreadOfItsOwn) {
  for (const int groups : {1, 3}) {
    Groups world(groups, 1, Stepping::kOwnThreads);
    std::set<std::thread::id> where;
    world.before_step = [&](int) { where.insert(std::this_thread::get_id()); };
    world.collect();
    EXPECT_EQ(where, std::set{std::this_thread::get_id()});
  }
}

}  // namespace
}  // namespace tandem::rl
