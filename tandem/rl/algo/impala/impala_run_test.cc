#include "tandem/rl/algo/impala/impala_run.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/rl/algo/run_parts.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/testing/wrapped_envs.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {
namespace {

constexpr std::int64_t kBatch = 4 * 16;  // rows of two workers with four environments each

ImpalaSetup impala_on(const std::string& env, ImpalaExecution execution) {
  ImpalaSetup setup;
  setup.seed = 3;
  setup.total_steps = 40 * kBatch;
  setup.impala.num_envs = 8;
  setup.impala.rollout_steps = 16;
  setup.impala.execution = execution;
  setup.impala.batches_per_update = 5;
  setup.make_envs = [env](int count) { return EnvRegistry::native().make(env, count); };
  setup.make_policy = [](const Spec& spec, at::Generator generator) {
    return std::make_shared<MlpPolicy>(spec, MlpPolicyOptions{}, generator);
  };
  return setup;
}

// Updates until all steps are made.
RunReport finish(ImpalaRun& run) {
  RunReport last;
  while (run.env_steps() < 40 * kBatch || !run.all_reported()) last = run.update();
  return last;
}

std::string state_at_the_end(ImpalaSetup setup) {
  ImpalaRun run(std::move(setup));
  (void)finish(run);
  return run.state_sha256();
}

class ImpalaRunTest : public ::testing::TestWithParam<ImpalaExecution> {};

TEST_P(ImpalaRunTest, EveryStepThatWasSampledIsLearnedFromOnce) {
  ImpalaRun run(impala_on("CartPole-v1", GetParam()));
  const RunReport last = finish(run);
  EXPECT_EQ(run.env_steps(), 40 * kBatch);
  EXPECT_EQ(run.updates(), 8);
  EXPECT_EQ(last.pipeline->samples_sampled, run.env_steps());
  EXPECT_EQ(last.pipeline->samples_trained, run.env_steps());
  EXPECT_EQ(last.pipeline->learner_steps, 40);
  EXPECT_GT(last.episodes, 0);
  EXPECT_GT(last.learning.entropy, 0);
  (void)run.state_sha256();
  EXPECT_EQ(run.work().front().rows, run.env_steps());
}

TEST_P(ImpalaRunTest, SavingLearnsFromWhatIsOnItsWayAndTheRunGoesOn) {
  ImpalaRun run(impala_on("CartPole-v1", GetParam()));
  (void)run.update();
  (void)run.save();
  const std::int64_t saved = run.env_steps();
  EXPECT_GE(saved, 5 * kBatch);
  EXPECT_EQ(run.work().front().rows, saved);
  EXPECT_EQ(run.all_reported(), saved == 5 * kBatch);
  const RunReport last = finish(run);
  EXPECT_EQ(run.env_steps(), 40 * kBatch);
  EXPECT_EQ(last.pipeline->samples_trained, 40 * kBatch);
  EXPECT_EQ(last.pipeline->samples_sampled, 40 * kBatch);
}

TEST_P(ImpalaRunTest, ContinuousActionsAndSeveralPassesToo) {
  ImpalaSetup setup = impala_on("Pendulum-v1", GetParam());
  setup.impala.passes = 3;
  ImpalaRun run(std::move(setup));
  (void)run.update();
  (void)run.save();
  const RunReport last = finish(run);
  const std::int64_t passes = 1 + 2 + 38 * 3;  // the first batches of the run get fewer
  EXPECT_EQ(last.pipeline->samples_trained, passes * kBatch) << "the last update has all that are left";
  (void)run.state_sha256();
  EXPECT_EQ(run.work().front().rows, passes * kBatch);
}

INSTANTIATE_TEST_SUITE_P(Both, ImpalaRunTest, ::testing::Values(ImpalaExecution::kThreads, ImpalaExecution::kInline),
                         [](const auto& test) {
                           return test.param == ImpalaExecution::kInline ? "Inline" : "Threads";
                         });

TEST(ImpalaRunInlineTest, OnOneThreadTwoRunsHaveTheSameBits) {
  const std::string first = state_at_the_end(impala_on("CartPole-v1", ImpalaExecution::kInline));
  EXPECT_EQ(state_at_the_end(impala_on("CartPole-v1", ImpalaExecution::kInline)), first);
  ImpalaSetup other = impala_on("CartPole-v1", ImpalaExecution::kInline);
  other.seed = 4;
  EXPECT_NE(state_at_the_end(std::move(other)), first);
}

TEST(ImpalaRunInlineTest, ARunThatWasSavedAndLoadedGoesOnAsTheOneThatWasSaved) {
  const ImpalaSetup setup = impala_on("CartPole-v1", ImpalaExecution::kInline);
  ImpalaRun first(setup);
  for (int i = 0; i < 3; ++i) (void)first.update();
  const learner::StateParts parts = first.save();
  ImpalaRun second(setup);
  const auto resumed = second.load([&](const std::string& name) { return learner::part_of(parts, name); });
  EXPECT_EQ(resumed, RolloutWorker::Resumed::kExactly);
  EXPECT_EQ(second.updates(), 3);
  EXPECT_EQ(second.env_steps(), first.env_steps());
  const RunReport of_first = finish(first), of_second = finish(second);
  EXPECT_EQ(second.state_sha256(), first.state_sha256());
  EXPECT_TRUE(at::equal(find(learner::part_of(second.save(), "run"), "counters", "run"),
                        find(learner::part_of(first.save(), "run"), "counters", "run")));
  EXPECT_EQ(of_second.episodes, of_first.episodes);
  EXPECT_EQ(of_second.pipeline->samples_trained, of_first.pipeline->samples_trained);
  EXPECT_EQ(of_second.pipeline->samples_sampled, of_first.pipeline->samples_sampled);
}

TEST(ImpalaRunInlineTest, WorkersActWithTheLearnersNewestWeights) {
  ImpalaSetup setup = impala_on("CartPole-v1", ImpalaExecution::kInline);
  setup.impala.num_envs = 4;
  setup.impala.workers = 1;
  ImpalaRun on_policy(std::move(setup)), behind(impala_on("CartPole-v1", ImpalaExecution::kInline));
  for (int i = 0; i < 8; ++i) {
    EXPECT_NEAR(on_policy.update().learning.approx_kl, 0, 1e-7);
    EXPECT_GT(behind.update().learning.approx_kl, 1e-6);
  }
}

TEST(ImpalaRunInlineTest, TheLagCountsLearnerStepsSinceTheBatchesPolicy) {
  ImpalaSetup setup = impala_on("CartPole-v1", ImpalaExecution::kInline);
  setup.impala.num_envs = 4;
  setup.impala.workers = 1;  // so every batch is learned from in the round in which it is made
  ImpalaRun run(std::move(setup));
  EXPECT_EQ(finish(run).pipeline->lag_of_run.max(), 0);
  ImpalaRun two(impala_on("CartPole-v1", ImpalaExecution::kInline));
  EXPECT_GT(finish(two).pipeline->lag_of_run.max(), 1);  // the queue fills
}

TEST_P(ImpalaRunTest, ABoundOnPolicyLagHolds) {
  ImpalaSetup setup = impala_on("CartPole-v1", GetParam());
  setup.impala.max_policy_lag = 2;
  ImpalaRun run(setup);
  const RunReport waited = finish(run);
  EXPECT_LE(waited.pipeline->lag_of_run.max(), 2);
  EXPECT_EQ(waited.pipeline->samples_trained, 40 * kBatch);
  EXPECT_EQ(waited.pipeline->samples_dropped, 0);

  setup.impala.max_policy_lag = 0;
  setup.impala.beyond_lag = pipeline::BeyondLag::kDrop;
  ImpalaRun dropping(setup);
  const RunReport dropped = finish(dropping);
  EXPECT_EQ(dropping.env_steps(), 40 * kBatch);
  EXPECT_EQ(dropped.pipeline->lag_of_run.max(), 0);
  EXPECT_GT(dropped.pipeline->samples_trained, 0);
  EXPECT_EQ(dropped.pipeline->samples_trained + dropped.pipeline->samples_dropped, 40 * kBatch);
}

// Remembers where it was told to write.
class Addressed final : public testing::WrappedEnvs {
 public:
  Addressed(std::unique_ptr<EnvGroup> inner, std::set<const std::byte*>& rows)
      : WrappedEnvs(std::move(inner)), rows_(rows) {}
  void step(const EnvActions& actions, const EnvArrays& out) override {
    rows_.insert(out.observation.front());
    WrappedEnvs::step(actions, out);
  }

 private:
  std::set<const std::byte*>& rows_;
};

// Of the queue's slots each has rows of its own; a fragment that is copied there would have those of one.
TEST(ImpalaRunInlineTest, EnvironmentsWriteIntoTheSlotsOfTheQueue) {
  ImpalaSetup setup = impala_on("CartPole-v1", ImpalaExecution::kInline);
  std::set<const std::byte*> rows;
  setup.make_envs = [&rows, make = setup.make_envs, built = 0](int count) mutable -> std::unique_ptr<EnvGroup> {
    const bool of_first_worker = built++ == 1;  // the first one tells the spec
    if (!of_first_worker) return make(count);
    return std::make_unique<Addressed>(make(count), rows);
  };
  const int slots = setup.impala.queue + setup.impala.workers + setup.impala.loaders;
  ImpalaRun run(std::move(setup));
  (void)finish(run);
  EXPECT_EQ(run.queue_slots().all, static_cast<std::size_t>(slots));
  EXPECT_EQ(rows.size() % 16, 0u);
  EXPECT_GE(rows.size(), 2u * 16) << "several slots";
  EXPECT_LE(rows.size(), static_cast<std::size_t>(slots) * 16);
}

// Counts its steps.
class Counted final : public testing::WrappedEnvs {
 public:
  Counted(std::unique_ptr<EnvGroup> inner, std::int64_t& steps) : WrappedEnvs(std::move(inner)), steps_(steps) {}
  void step(const EnvActions& actions, const EnvArrays& out) override {
    ++steps_;
    WrappedEnvs::step(actions, out);
  }

 private:
  std::int64_t& steps_;
};

// A batch is 16 steps of a worker's group.
TEST(ImpalaRunInlineTest, EachWorkersBatchesAreLearnedFromEquallyOftenWhereverTheRunIsSaved) {
  std::vector<std::int64_t> steps(4, 0);
  const auto setup = [&steps] {
    ImpalaSetup with = impala_on("CartPole-v1", ImpalaExecution::kInline);
    with.impala.workers = 4;
    with.make_envs = [&steps, make = with.make_envs, built = 0](int count) mutable -> std::unique_ptr<EnvGroup> {
      const int worker = built++ - 1;  // the first one tells the spec
      if (worker < 0) return make(count);
      return std::make_unique<Counted>(make(count), steps[static_cast<std::size_t>(worker)]);
    };
    return with;
  };
  ImpalaRun first(setup()), second(setup());
  const auto expect_equally_often = [&](ImpalaRun& run) {
    (void)run.update();
    const learner::StateParts parts = run.save();
    const auto [least, most] = std::ranges::minmax(steps);
    EXPECT_LE(most - least, 16);
    EXPECT_EQ(run.env_steps(), 2 * std::accumulate(steps.begin(), steps.end(), std::int64_t{0}));
    return parts;
  };
  for (int i = 0; i < 2; ++i) (void)expect_equally_often(first);
  const learner::StateParts parts = expect_equally_often(first);
  (void)second.load([&](const std::string& name) { return learner::part_of(parts, name); });
  while (second.env_steps() < 40 * kBatch) (void)expect_equally_often(second);
}

ImpalaSetup split(ImpalaExecution execution) {
  ImpalaSetup setup = impala_on("CartPole-v1", execution);
  setup.impala.splits = 2;
  setup.normalizer = {.observations = true, .rewards = true};
  return setup;
}

TEST_P(ImpalaRunTest, WorkersWhoseGroupsTakeTurnsLoseNothing) {
  ImpalaSetup setup = split(GetParam());
  setup.shards = 2;  // an environment a group
  ImpalaRun run(std::move(setup));
  const RunReport last = finish(run);
  EXPECT_EQ(last.pipeline->samples_trained, 40 * kBatch);
  EXPECT_EQ(last.pipeline->learner_steps, 40);
  std::set<int> rows;
  for (const Episode& episode : run.episodes().episodes()) rows.insert(episode.row);
  EXPECT_EQ(rows, (std::set<int>{0, 1, 2, 3, 4, 5, 6, 7})) << "all environments end episodes";
}

TEST(ImpalaRunInlineTest, RunsWhoseGroupsTakeTurnsHaveTheSameBitsAndGoOnExactly) {
  ImpalaRun first(split(ImpalaExecution::kInline)), second(split(ImpalaExecution::kInline));
  for (int i = 0; i < 3; ++i) (void)first.update();
  const learner::StateParts parts = first.save();
  const auto resumed = second.load([&](const std::string& name) { return learner::part_of(parts, name); });
  EXPECT_EQ(resumed, RolloutWorker::Resumed::kExactly);
  (void)finish(first);
  (void)finish(second);
  EXPECT_EQ(second.state_sha256(), first.state_sha256());
  ImpalaSetup whole = split(ImpalaExecution::kInline);
  whole.impala.splits = 1;
  EXPECT_NE(state_at_the_end(std::move(whole)), first.state_sha256()) << "random streams belong to the groups";
}

// Where the groups step does not matter to a learner that does not learn: each run samples the same.
TEST(ImpalaRunThreadsTest, OnTheirOwnThreadsGroupsSampleWhatTheyDoInTurn) {
  const auto episodes_of = [](ImpalaExecution execution) {
    ImpalaSetup setup = split(execution);
    setup.normalizer = {};
    setup.shards = 2;
    setup.impala.workers = 1;
    setup.impala.learning_rate = 1e-30;  // which moves no parameter
    ImpalaRun run(std::move(setup));
    while (run.env_steps() < 40 * kBatch || !run.all_reported()) (void)run.update();
    std::vector<std::tuple<double, std::int64_t, int, int>> all;
    for (const Episode& each : run.episodes().episodes())
      all.emplace_back(each.episode_return, each.length, each.step, each.row);
    return all;
  };
  const auto in_turn = episodes_of(ImpalaExecution::kInline);
  EXPECT_GT(in_turn.size(), 50u);
  EXPECT_EQ(episodes_of(ImpalaExecution::kThreads), in_turn);
}

// CartPole that fails in its 300th step.
class Failing final : public testing::WrappedEnvs {
 public:
  using WrappedEnvs::WrappedEnvs;
  void step(const EnvActions& actions, const EnvArrays& out) override {
    if (++steps_ == 300) throw EnvError("the pole broke");
    WrappedEnvs::step(actions, out);
  }

 private:
  int steps_ = 0;
};

TEST(ImpalaRunThreadsTest, AnEnvironmentThatFailsEndsTheRunWithTheWorkersName) {
  ImpalaSetup setup = impala_on("CartPole-v1", ImpalaExecution::kThreads);
  setup.impala.workers = 1;
  setup.make_envs = [make = setup.make_envs](int count) { return std::make_unique<Failing>(make(count)); };
  ImpalaRun run(std::move(setup));
  try {
    (void)finish(run);
    FAIL();
  } catch (const EnvError& error) {
    EXPECT_STREQ(error.what(), "rollout 0: the pole broke");
  }
}

// Those of the pipeline's stages. A joined thread is listed until the kernel is done with it.
int stage_threads() {
  int threads = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    for (const char* stage : {"rollout", "loader", "learner"}) threads += name.starts_with(stage) ? 1 : 0;
  }
  return threads;
}

TEST(ImpalaRunThreadsTest, LeavingARunThatIsUnderWayEndsItsThreads) {
  {
    ImpalaRun run(impala_on("CartPole-v1", ImpalaExecution::kThreads));
    (void)run.update();
    EXPECT_TRUE(eventually([] { return stage_threads() == 4; })) << "two workers, a loader and the learner";
  }
  EXPECT_TRUE(eventually([] { return stage_threads() == 0; }));
}

TEST(ImpalaResumeTest, SamplesThatWereDroppedBeforeStillCount) {
  const auto setup = [] {
    ImpalaSetup with = impala_on("CartPole-v1", ImpalaExecution::kInline);
    with.impala.max_policy_lag = 0;
    with.impala.beyond_lag = pipeline::BeyondLag::kDrop;
    return with;
  };
  ImpalaRun first(setup()), second(setup());
  for (int i = 0; i < 2; ++i) (void)first.update();
  const learner::StateParts parts = first.save();
  (void)second.load([&](const std::string& name) { return learner::part_of(parts, name); });
  const std::int64_t of_first = first.update().pipeline->samples_dropped;
  EXPECT_GE(of_first, 5 * kBatch);
  EXPECT_EQ(second.update().pipeline->samples_dropped, of_first);
}

TEST(ImpalaResumeTest, TheHashCoversTheTargetNetwork) {
  const auto setup = [] {
    ImpalaSetup with = impala_on("CartPole-v1", ImpalaExecution::kInline);
    with.appo = AppoOptions{.target_update_steps = 1000};
    return with;
  };
  ImpalaRun first(setup()), same(setup()), other(setup());
  (void)first.update();
  const learner::StateParts parts = first.save();
  (void)same.load([&](const std::string& name) { return learner::part_of(parts, name); });
  EXPECT_EQ(same.state_sha256(), first.state_sha256());
  (void)other.load([&](const std::string& name) {
    model::NamedTensors part = learner::part_of(parts, name);
    if (name == "target") part.front().second = part.front().second + 1;
    return part;
  });
  EXPECT_EQ(other.params_sha256(), first.params_sha256());
  EXPECT_NE(other.state_sha256(), first.state_sha256());
}

}  // namespace
}  // namespace tandem::rl
