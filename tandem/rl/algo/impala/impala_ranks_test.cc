// IMPALA and APPO over several ranks, which are threads here; tests/process/impala_ranks_test.cc has processes.
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/concurrency/bounded_queue.h"
#include "tandem/learner/testing/local_ranks.h"
#include "tandem/rl/algo/impala/impala_run.h"
#include "tandem/rl/algo/testing/small_impala.h"
#include "tandem/rl/env/testing/wrapped_envs.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr std::int64_t kRankedBatch = 8 * 16,
                       kRankedSteps = 24 * kRankedBatch;  // of two workers with eight environments each

struct RankedVariant {
  std::string name;
  bool appo = false;
  bool normalizes = false;
  bool remembers = false;
  sync::StrategyOptions strategy = {};
  int splits = 1;  // of a worker's environments, which take turns
};

ImpalaSetup ranked_setup(const RankedVariant& variant, ImpalaExecution execution, int replicas,
                         const learner::Ranks& ranks) {
  ImpalaSetup setup = testing::small_impala(
      {.appo = variant.appo, .remembers = variant.remembers, .replicas = replicas, .strategy = variant.strategy});
  setup.total_steps = kRankedSteps;
  setup.rng = model::RngOrder::kUnordered;  // other ranks of this process draw while they are built
  setup.ranks = ranks;
  setup.impala.splits = variant.splits;
  setup.impala.execution = execution;
  setup.impala.learning_rate_schedule = Schedule::kLinear;
  setup.normalizer = {.observations = variant.normalizes, .rewards = variant.normalizes};
  return setup;
}

RunReport finish_ranked(ImpalaRun& run) {
  RunReport last;
  while (run.env_steps() < kRankedSteps || !run.all_reported()) last = run.update();
  return last;
}

// Each rank on a thread; what it returns, or "failed: " and why.
using OneRank = std::function<std::string(const learner::Ranks&)>;
std::vector<std::string> on_ranks(int count, const OneRank& work) {
  const std::vector<learner::Ranks> members = learner::make_local_ranks(count);
  std::vector<std::string> results(members.size());
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        results[rank] = work(members[rank]);
      } catch (const std::exception& error) {
        results[rank] = concat("failed: ", error.what());
      }
    });
  }
  threads.clear();
  return results;
}

class ImpalaRanksTest : public ::testing::TestWithParam<RankedVariant> {
 protected:
  static std::string state_on(const learner::Ranks& ranks, int replicas) {
    ImpalaRun run(ranked_setup(GetParam(), ImpalaExecution::kInline, replicas, ranks));
    (void)run.update();
    (void)run.save();
    (void)finish_ranked(run);
    return run.state_sha256();
  }
};

TEST_P(ImpalaRanksTest, WithTheSameShardsAnyNumberOfRanksGivesTheSameBits) {
  const std::string expected = state_on({}, 1);
  EXPECT_THAT(on_ranks(2, [](const learner::Ranks& ranks) { return state_on(ranks, 2); }), Each(expected));
  EXPECT_THAT(on_ranks(4, [](const learner::Ranks& ranks) { return state_on(ranks, 1); }), Each(expected));
  EXPECT_THAT(on_ranks(3, [](const learner::Ranks& ranks) { return state_on(ranks, 1); }), Each(expected))
      << "two shards on the first";
}

TEST_P(ImpalaRanksTest, ASavedRunGoesOnOnOtherRanks) {
  ImpalaRun whole(ranked_setup(GetParam(), ImpalaExecution::kInline, 2, {}));
  for (int i = 0; i < 2; ++i) (void)whole.update();
  const learner::StateParts parts = whole.save();
  std::vector<std::vector<std::string>> names(2);
  const auto states = on_ranks(2, [&](const learner::Ranks& ranks) {
    ImpalaRun run(ranked_setup(GetParam(), ImpalaExecution::kInline, 1, ranks));
    const auto resumed = run.load([&](const std::string& name) { return learner::part_of(parts, name); });
    EXPECT_EQ(resumed, RolloutWorker::Resumed::kExactly);
    for (const auto& [name, part] : run.save()) names[static_cast<std::size_t>(ranks.rank())].push_back(name);
    (void)finish_ranked(run);
    return run.state_sha256();
  });
  (void)finish_ranked(whole);
  EXPECT_THAT(states, Each(whole.state_sha256()));
  std::vector<std::string> all;
  for (const auto& [name, part] : parts) all.push_back(name);
  EXPECT_THAT(names, Each(::testing::UnorderedElementsAreArray(all))) << "all ranks have all parts";
}

INSTANTIATE_TEST_SUITE_P(Of, ImpalaRanksTest,
                         ::testing::Values(RankedVariant{"Impala"}, RankedVariant{"Appo", true},
                                           RankedVariant{"Normalized", true, true},
                                           RankedVariant{"Lstm", false, false, true},
                                           RankedVariant{"Turns", true, true, false, {}, 2},
                                           RankedVariant{"LstmTurns", false, true, true, {}, 2},
                                           RankedVariant{"Divided", true, true, false, sync::DividedOptions{}}),
                         [](const auto& test) { return test.param.name; });

// Its steps take longer.
class LateEnvs final : public testing::WrappedEnvs {
 public:
  using WrappedEnvs::WrappedEnvs;
  void step(const EnvActions& actions, const EnvArrays& out) override {
    std::this_thread::sleep_for(4ms);
    WrappedEnvs::step(actions, out);
  }
};

ImpalaSetup slow_on(int slow, const RankedVariant& variant, const learner::Ranks& ranks) {
  ImpalaSetup setup = ranked_setup(variant, ImpalaExecution::kThreads, 1, ranks);
  if (ranks.rank() != slow) return setup;
  setup.make_envs = [make = setup.make_envs](int count) { return std::make_unique<LateEnvs>(make(count)); };
  return setup;
}

// While one of them samples more slowly, so that the other's workers are ahead.
TEST(ImpalaRanksOnThreadsTest, AllStepsAreLearnedFromOnceAndAllRanksHaveTheSame) {
  for (const bool appo : {false, true}) {
    const auto states = on_ranks(2, [&](const learner::Ranks& ranks) {
      ImpalaRun run(slow_on(1, {.name = "", .appo = appo, .normalizes = true, .splits = appo ? 2 : 1}, ranks));
      std::string reported;
      RunReport last;
      int updates = 0;
      while (run.env_steps() < kRankedSteps || !run.all_reported()) {
        last = run.update();
        reported +=
            concat(run.env_steps(), " ", last.episodes, " ", last.episode_return_mean, " ", last.learning.policy_loss,
                   " ", last.learning.learning_rate, " ", last.pipeline->lag.mean(), ";");
        if (++updates == 2) {
          (void)run.save();
          reported += concat("saved at ", run.env_steps(), ";");
        }
      }
      EXPECT_EQ(run.env_steps(), kRankedSteps);
      EXPECT_EQ(last.pipeline->samples_sampled, kRankedSteps);
      EXPECT_GE(last.pipeline->samples_trained, appo ? 2 * kRankedSteps - 3 * kRankedBatch : kRankedSteps);
      EXPECT_EQ(last.pipeline->learner_steps * kRankedBatch, last.pipeline->samples_trained);
      EXPECT_GT(last.episodes, 0);
      const std::string state = run.state_sha256();
      std::int64_t rows = 0;
      for (const auto& work : run.work()) rows += work.rows;
      EXPECT_EQ(rows, last.pipeline->samples_trained);
      return concat(reported, run.params_sha256(), state);
    });
    EXPECT_THAT(states, Each(states.front()));
    EXPECT_THAT(states.front(), ::testing::Not(HasSubstr("failed")));
  }
}

// Over a whole run, so that what else the machine does in a moment decides nothing.
TEST(ImpalaRanksOnThreadsTest, WhoWaitsForASlowerRankSaysSo) {
  const auto ends = on_ranks(2, [](const learner::Ranks& ranks) {
    ImpalaRun run(slow_on(1, {.name = ""}, ranks));
    std::vector<RankReport> all(2);
    double idle = 0;
    while (run.env_steps() < kRankedSteps || !run.all_reported()) {
      const RunReport report = run.update();
      EXPECT_DOUBLE_EQ(report.learning.sync_seconds, report.ranks.at(0).wait_seconds);
      idle += report.pipeline->learner_idle;
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        all[rank].wait_seconds += report.ranks.at(rank).wait_seconds;
        all[rank].sample_seconds += report.ranks.at(rank).sample_seconds;
        all[rank].env_steps += report.ranks.at(rank).env_steps;
      }
    }
    EXPECT_GT(all[0].wait_seconds, all[1].wait_seconds);
    EXPECT_GT(all[1].sample_seconds, all[0].sample_seconds);
    EXPECT_GT(idle, 0) << "of the one that the other waits for";
    for (const RankReport& rank : all) EXPECT_EQ(rank.env_steps, kRankedSteps / 2);
    return "told";
  });
  EXPECT_THAT(ends, Each("told"));
}

// In the step of this number.
class BreakingEnvs final : public testing::WrappedEnvs {
 public:
  BreakingEnvs(std::unique_ptr<EnvGroup> inner, int at, std::function<void()> fail)
      : WrappedEnvs(std::move(inner)), at_(at), fail_(std::move(fail)) {}
  void step(const EnvActions& actions, const EnvArrays& out) override {
    if (++steps_ == at_) fail_();
    WrappedEnvs::step(actions, out);
  }

 private:
  const int at_;
  const std::function<void()> fail_;
  int steps_ = 0;
};

std::string run_failing(const learner::Ranks& ranks, const std::function<void()>& fail) {
  ImpalaSetup setup = ranked_setup({.name = ""}, ImpalaExecution::kThreads, 1, ranks);
  setup.impala.stall_timeout = 2;
  if (ranks.rank() == 1) {
    setup.make_envs = [make = setup.make_envs, fail](int count) {
      return std::make_unique<BreakingEnvs>(make(count), 100, fail);
    };
  }
  ImpalaRun run(std::move(setup));
  (void)finish_ranked(run);
  return "finished";
}

TEST(ImpalaRanksOnThreadsTest, AFailureOfOneEndsTheOthersWithItsReason) {
  const auto ends = on_ranks(
      2, [](const learner::Ranks& ranks) { return run_failing(ranks, [] { throw DataError("the pole broke"); }); });
  EXPECT_THAT(ends[1], AllOf(::testing::StartsWith("failed: rollout "), HasSubstr("the pole broke")));
  EXPECT_THAT(ends[0], AllOf(HasSubstr("rank 1 failed: "), HasSubstr("the pole broke")));
}

struct CloseAtTheEnd {
  BoundedQueue<int>* const queue;
  ~CloseAtTheEnd() {
    if (queue != nullptr) queue->close();
  }
};

// Its owner only sees that the group was aborted when it asks the others for something.
TEST(ImpalaRanksOnThreadsTest, TheRankThatFailedReportsItsOwnFailureWhereverItsOwnerIs) {
  std::atomic<bool> is_taken{false};  // by one group
  BoundedQueue<int> until_it_fails(1), until_rank_0_has_ended(1);
  const auto ends = on_ranks(2, [&](const learner::Ranks& ranks) -> std::string {
    const CloseAtTheEnd tell{ranks.rank() == 0 ? &until_rank_0_has_ended : nullptr};
    ImpalaSetup setup = ranked_setup({.name = ""}, ImpalaExecution::kThreads, 1, ranks);
    if (ranks.rank() == 0) {
      ImpalaRun run(std::move(setup));
      (void)finish_ranked(run);
      return "finished";
    }
    const auto fail = [&] {
      if (is_taken.exchange(true)) return;
      (void)until_it_fails.pop({}, Deadline::infinite());
      throw DataError("the pole broke");
    };
    setup.make_envs = [make = setup.make_envs, fail](int count) {
      return std::make_unique<BreakingEnvs>(make(count), 1, fail);
    };
    ImpalaRun run(std::move(setup));
    const CloseAtTheEnd let_go{&until_it_fails};
    (void)run.update();  // of the other worker's batches
    until_it_fails.close();
    (void)until_rank_0_has_ended.pop({}, Deadline::infinite());
    (void)run.save();
    return "saved";
  });
  EXPECT_THAT(ends[1], AllOf(::testing::StartsWith("failed: rollout "), HasSubstr("the pole broke")));
  EXPECT_THAT(ends[0], AllOf(HasSubstr("rank 1 failed: "), HasSubstr("the pole broke")));
}

// Rank 0's learner waits all the while, longer than a step of its own may take: rank 1 tells of its failure only when
// it has waited for the hanging thread, too.
TEST(ImpalaRanksOnThreadsTest, ARankThatHangsIsTheOneThatIsBlamed) {
  std::atomic<bool> has_hung{false};  // one group of all
  BoundedQueue<int> until_rank_0_has_ended(1);
  const auto hang = [&] {
    if (!has_hung.exchange(true)) (void)until_rank_0_has_ended.pop({}, Deadline::infinite());
  };
  const auto ends = on_ranks(2, [&](const learner::Ranks& ranks) {
    const CloseAtTheEnd let_go{ranks.rank() == 0 ? &until_rank_0_has_ended : nullptr};
    return run_failing(ranks, hang);
  });
  EXPECT_THAT(ends[1], AllOf(HasSubstr("in one call: rollout "), HasSubstr("2 s are allowed")));
  EXPECT_THAT(ends[0], AllOf(HasSubstr("rank 1 failed: "), HasSubstr("in one call: rollout ")));
}

// Its second forward pass for gradients takes longer.
class LatePolicy final : public ActorCritic {
 public:
  LatePolicy(const Spec& spec, at::Generator generator, Clock::duration later)
      : ActorCritic(spec),
        later_(later),
        inner_(register_module(
            "inner", std::make_shared<MlpPolicy>(spec, MlpPolicyOptions{.hidden = {8}}, std::move(generator)))) {}
  PolicyOutput forward(const Observation& observation) override {
    if (at::GradMode::is_enabled() && ++passes_ == 2) std::this_thread::sleep_for(later_);
    return inner_->forward(observation);
  }

 private:
  const Clock::duration later_;
  const std::shared_ptr<MlpPolicy> inner_;
  int passes_ = 0;
};

// No call of rank 1 takes as long as the limit, by far, and rank 0's learner waits for two of them: for the rollout
// that the second step is made of, and then for that step.
TEST(ImpalaRanksOnThreadsTest, WhoWaitsForASlowerRankIsNotTakenForOneThatHangs) {
  const auto ends = on_ranks(2, [](const learner::Ranks& ranks) {
    ImpalaSetup setup = ranked_setup({.name = ""}, ImpalaExecution::kThreads, 1, ranks);
    setup.shards = 2;
    setup.total_steps = 4 * kRankedBatch;
    setup.impala.workers = 1;
    setup.impala.num_envs = 8;
    setup.impala.stall_timeout = 6;
    setup.impala.max_policy_lag = 0;  // a rollout begins after the step before it
    setup.impala.kernel = LossKernel::kOff;
    if (ranks.rank() == 1) {
      setup.make_envs = [make = setup.make_envs](int count) {
        return std::make_unique<BreakingEnvs>(make(count), 24, [] { std::this_thread::sleep_for(3500ms); });
      };
    }
    const Clock::duration later = ranks.rank() == 1 ? 3500ms : 0ms;
    setup.make_policy = [later](const Spec& spec, at::Generator generator) {
      return std::make_shared<LatePolicy>(spec, std::move(generator), later);
    };
    ImpalaRun run(std::move(setup));
    while (run.env_steps() < 4 * kRankedBatch || !run.all_reported()) (void)run.update();
    return "finished";
  });
  EXPECT_THAT(ends, Each("finished"));
}

TEST(ImpalaRanksOptionsTest, BatchesAreNotDroppedOnSeveralRanks) {
  const auto ends = on_ranks(2, [](const learner::Ranks& ranks) {
    ImpalaSetup setup = ranked_setup({.name = ""}, ImpalaExecution::kThreads, 1, ranks);
    setup.impala.max_policy_lag = 2;
    setup.impala.beyond_lag = pipeline::BeyondLag::kDrop;
    const ImpalaRun run(std::move(setup));
    return std::string("built");
  });
  EXPECT_THAT(ends, Each(HasSubstr("beyond_lag is drop, and the run has 2 ranks")));
}

TEST(ImpalaRanksOptionsTest, ABoundOnLagThatIsWaitedForHoldsOnAllRanks) {
  const auto ends = on_ranks(2, [](const learner::Ranks& ranks) {
    ImpalaSetup setup = slow_on(1, {.name = "", .appo = true}, ranks);
    setup.impala.max_policy_lag = 4;
    ImpalaRun run(std::move(setup));
    const RunReport last = finish_ranked(run);
    EXPECT_EQ(last.pipeline->samples_sampled, kRankedSteps);
    return "finished";
  });
  EXPECT_THAT(ends, Each("finished"));
}

}  // namespace
}  // namespace tandem::rl
