#include "tandem/rl/algo/ppo/ppo_run.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <span>
#include <thread>

#include "tandem/base/error.h"
#include "tandem/base/testing/eventually.h"
#include "tandem/rl/env/env_adapter.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/testing/wrapped_envs.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {
namespace {

PpoSetup setup_for(const std::string& env, int shards, int replicas) {
  PpoSetup setup;
  setup.seed = 3;
  setup.total_steps = 4096;
  setup.shards = shards;
  setup.devices = std::vector<c10::Device>(static_cast<std::size_t>(replicas), c10::Device(c10::kCPU));
  setup.ppo.num_envs = 8;
  setup.ppo.rollout_steps = 32;
  setup.ppo.epochs = 2;
  setup.ppo.minibatches = 2;
  setup.make_envs = [env](int count) { return EnvRegistry::native().make(env, count); };
  setup.make_policy = [](const Spec& spec, at::Generator generator) {
    return std::make_shared<MlpPolicy>(spec, MlpPolicyOptions{}, generator);
  };
  return setup;
}

std::string state_after(PpoSetup setup, int updates) {
  PpoRun run(std::move(setup));
  for (int i = 0; i < updates; ++i) (void)run.update();
  return run.state_sha256();
}

TEST(PpoRunTest, EveryTopologyGivesTheSameBitsForDiscreteActions) {
  const std::string expected = state_after(setup_for("CartPole-v1", 4, 1), 4);
  for (const int replicas : {2, 3, 4})
    EXPECT_EQ(state_after(setup_for("CartPole-v1", 4, replicas), 4), expected) << replicas;
  EXPECT_NE(state_after(setup_for("CartPole-v1", 2, 1), 4), expected);
}

// What changes from step to step is among it: schedules, an adapted weight, the end of passes by a target.
TEST(PpoRunTest, RecordedPassesHaveTheBitsAndTheNumbersOfAutograd) {
  for (const char* env : {"CartPole-v1", "Pendulum-v1"}) {
    const auto setup = [env](LossKernel kernel, int replicas) {
      PpoSetup s = setup_for(env, 4, replicas);
      s.ppo.kernel = kernel;
      s.ppo.entropy_coef = 0.01;
      s.ppo.entropy_coef_schedule = s.ppo.clip_range_schedule = Schedule::kLinear;
      s.ppo.kl_coef = 0.2;
      s.ppo.kl_coef_target = 0.001;
      s.ppo.target_kl = 0.02;
      return s;
    };
    for (const int replicas : {1, 2}) {
      PpoRun autograd(setup(LossKernel::kOff, 1)), recorded(setup(LossKernel::kRecorded, replicas));
      for (int update = 0; update < 6; ++update) {
        const LearnReport wanted = autograd.update().learning, now = recorded.update().learning;
        for (const auto of : {&LearnReport::policy_loss, &LearnReport::value_loss, &LearnReport::entropy,
                              &LearnReport::approx_kl, &LearnReport::clip_fraction})
          EXPECT_EQ(now.*of, wanted.*of) << env << " on " << replicas << ", update " << update;
      }
      EXPECT_EQ(recorded.state_sha256(), autograd.state_sha256()) << env << " on " << replicas;
    }
  }
}

TEST(PpoRunTest, EveryTopologyGivesTheSameBitsForContinuousNormalisedRuns) {
  const auto setup = [](int replicas) {
    PpoSetup s = setup_for("Pendulum-v1", 4, replicas);
    s.normalizer = {.observations = true, .rewards = true};
    s.make_policy = [](const Spec& spec, at::Generator generator) {
      return std::make_shared<MlpPolicy>(
          spec, MlpPolicyOptions{.family = ActionFamily::kStateDependentNoise, .log_std_init = -2}, generator);
    };
    return s;
  };
  const std::string expected = state_after(setup(1), 8);
  for (const int replicas : {2, 4}) EXPECT_EQ(state_after(setup(replicas), 8), expected) << replicas;
}

TEST(PpoRunTest, EveryTopologyGivesTheSameBitsForSquashedActions) {
  const auto setup = [](int shards, int replicas) {
    PpoSetup s = setup_for("Pendulum-v1", shards, replicas);
    s.make_policy = [](const Spec& spec, at::Generator generator) {
      return std::make_shared<MlpPolicy>(
          spec, MlpPolicyOptions{.family = ActionFamily::kSquashedNormal, .log_std_init = -1}, generator);
    };
    return s;
  };
  const std::string expected = state_after(setup(4, 1), 4);
  for (const int replicas : {2, 3, 4}) EXPECT_EQ(state_after(setup(4, replicas), 4), expected) << replicas;
  EXPECT_NE(state_after(setup(2, 1), 4), expected);
}

// Shows two numbers, which two choices are to name; they decide what comes next.
struct TwoChoices {
  static Spec spec() {
    return {.id = "TwoChoices-v0",
            .observation = {{.name = "obs", .shape = {2}}},
            .action = MultiDiscrete{{3, 2}},
            .max_episode_steps = 7};
  }
  using Shown = std::array<float, 2>;

  Shown reset(NumpyGenerator& random) {
    wanted = {random.integers(0, 3), random.integers(0, 2)};
    return shown();
  }
  StepResult<Shown> step(std::span<const std::int64_t> chosen) {
    const double reward = (chosen[0] == wanted[0] ? 1.0 : 0.0) + (chosen[1] == wanted[1] ? 0.5 : 0.0);
    wanted = {(wanted[0] + chosen[0] + 1) % 3, (wanted[1] + chosen[1]) % 2};
    return {shown(), reward};
  }
  std::array<std::int64_t, 2> save() const { return wanted; }
  Shown load(std::span<const std::byte> bytes) {
    std::memcpy(wanted.data(), bytes.data(), sizeof(wanted));
    return shown();
  }
  Shown shown() const { return {static_cast<float>(wanted[0]), static_cast<float>(wanted[1])}; }

  std::array<std::int64_t, 2> wanted{};
};

TEST(PpoRunTest, EveryTopologyGivesTheSameBitsForSeveralChoicesMadeTogether) {
  const auto setup = [](int shards, int replicas) {
    PpoSetup s = setup_for("CartPole-v1", shards, replicas);
    s.make_envs = [](int count) { return std::make_unique<EnvGroupOf<TwoChoices>>(count); };
    return s;
  };
  const std::string expected = state_after(setup(4, 1), 4);
  for (const int replicas : {2, 3, 4}) EXPECT_EQ(state_after(setup(4, replicas), 4), expected) << replicas;
  EXPECT_NE(state_after(setup(2, 1), 4), expected);
}

// The coefficient is part of what goes on, and the sum that it follows is that of all shards.
TEST(PpoRunTest, AnAdaptedKlPenaltyIsTheSameOnAnyTopologyAndAfterALoad) {
  const auto setup = [](int replicas) {
    PpoSetup s = setup_for("CartPole-v1", 4, replicas);
    s.ppo.kl_coef = 0.2;
    s.ppo.kl_coef_target = 1e-7;
    return s;
  };
  PpoRun whole(setup(1));
  for (int i = 0; i < 4; ++i) (void)whole.update();
  EXPECT_GT(whole.update().learning.kl_coef, 0.2);
  PpoRun first(setup(2));
  for (int i = 0; i < 3; ++i) (void)first.update();
  const learner::StateParts parts = first.save();
  PpoRun second(setup(4));
  (void)second.load([&](const std::string& name) { return learner::part_of(parts, name); });
  for (int i = 0; i < 2; ++i) (void)second.update();
  EXPECT_EQ(second.state_sha256(), whole.state_sha256());
}

// Steps of four groups in three updates, as a record has them; the second update is one of short fragments only.
const std::vector<std::vector<int>> kUneven{{32, 9, 32, 17}, {8, 8, 9, 8}, {1, 32, 30, 31}};

PpoSetup following(const std::vector<std::vector<int>>& recorded, int replicas) {
  PpoSetup setup = setup_for("CartPole-v1", 4, replicas);
  setup.stragglers.recorded = recorded;
  return setup;
}

TEST(PpoRunTest, UnevenFragmentsGiveTheSameBitsOnAnyTopology) {
  const std::string expected = state_after(following(kUneven, 1), 3);
  for (const int replicas : {2, 3, 4}) EXPECT_EQ(state_after(following(kUneven, replicas), 3), expected) << replicas;
  std::vector<std::vector<int>> other = kUneven;
  other[1][2] = 8;
  EXPECT_NE(state_after(following(other, 2), 3), expected);
}

TEST(PpoRunTest, UnevenFragmentsCountTheStepsThatWereMade) {
  PpoRun run(following(kUneven, 2));
  const RunReport report = run.update();
  EXPECT_EQ(run.env_steps(), 2 * (32 + 9 + 32 + 17));  // two environments a group
  EXPECT_EQ(report.rollouts->steps, kUneven[0]);
  EXPECT_EQ(report.rollouts->rows_cut, 2 * (23 + 15));
  EXPECT_EQ(report.learning.minibatches, 4);  // as with whole ones
  (void)run.update();
  (void)run.update();
  try {
    (void)run.update();
    FAIL() << "went on";
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("ends after update 3"));
  }
}

// A record in which all made all their steps is that of a run that waits for all.
TEST(PpoRunTest, WholeFragmentsLearnAlikeWhetherOrNotTheyMightHaveEndedEarly) {
  EXPECT_EQ(state_after(following({{32, 32, 32, 32}, {32, 32, 32, 32}}, 2), 2),
            state_after(setup_for("CartPole-v1", 4, 1), 2));
}

// Stands before an env group and lets others know how many steps it made.
class Gated final : public testing::WrappedEnvs {
 public:
  using Gate = std::function<void()>;
  Gated(std::unique_ptr<EnvGroup> group, Gate before, Gate after)
      : WrappedEnvs(std::move(group)), before_(std::move(before)), after_(std::move(after)) {}
  void step(const EnvActions& actions, const EnvArrays& out) override {
    before_();
    WrappedEnvs::step(actions, out);
    after_();
  }

 private:
  const Gate before_, after_;
};

// Two replicas with a group each. The second makes half of its steps and waits then until the first has made all of
// its.
TEST(PpoRunTest, AGroupThatOthersWouldWaitForEndsEarlyAndTheRecordGivesTheSameBits) {
  PpoSetup setup = setup_for("CartPole-v1", 2, 2);
  setup.stragglers.options = {.policy = pipeline::Stragglers::kPreempt, .sync_frac = 0.5};
  constexpr int kUpdates = 6;
  std::atomic<int> first = 0, second = 0;  // steps of the update
  int groups = -1;                         // the first call asks for the spec
  PpoSetup gated = setup;
  gated.make_envs = [&, native = setup.make_envs](int count) -> std::unique_ptr<EnvGroup> {
    const int group = groups++;
    if (group < 0) return native(count);
    if (group == 0)
      return std::make_unique<Gated>(
          native(count), [] {}, [&] { ++first; });
    const auto await_first = [&] {
      if (second < 16) return;
      EXPECT_TRUE(eventually([&] { return first == 32; }));
    };
    return std::make_unique<Gated>(native(count), await_first, [&] { ++second; });
  };
  std::vector<std::vector<int>> recorded;
  std::int64_t cut = 0;
  PpoRun run(gated);
  for (int i = 0; i < kUpdates; ++i) {
    first = second = 0;
    const RunReport report = run.update();
    recorded.push_back(report.rollouts->steps);
    cut += report.rollouts->rows_cut;
  }
  EXPECT_GT(cut, 0);
  for (const std::vector<int>& update : recorded) {
    EXPECT_EQ(update[0], 32);
    EXPECT_GE(update[1], 8);
  }
  EXPECT_THAT(run.why_numbers_differ(), ::testing::HasSubstr("end early"));
  PpoSetup replay = setup_for("CartPole-v1", 2, 1);
  replay.stragglers.recorded = recorded;
  EXPECT_EQ(state_after(replay, kUpdates), run.state_sha256());
}

TEST(PpoRunTest, ARunThatWasSavedAndLoadedOnAnotherTopologyGoesOnExactly) {
  for (const char* env : {"CartPole-v1", "Pendulum-v1"}) {
    const std::string expected = state_after(setup_for(env, 4, 2), 6);
    PpoRun first(setup_for(env, 4, 1));
    for (int i = 0; i < 3; ++i) (void)first.update();
    const learner::StateParts parts = first.save();
    PpoRun second(setup_for(env, 4, 4));
    const RolloutWorker::Resumed resumed = second.load([&](const std::string& name) {
      for (const auto& [part, tensors] : parts) {
        if (part == name) return tensors;
      }
      throw CheckpointError("no part " + name);
    });
    EXPECT_EQ(resumed, RolloutWorker::Resumed::kExactly);
    EXPECT_EQ(second.updates(), 3);
    for (int i = 0; i < 3; ++i) (void)second.update();
    EXPECT_EQ(second.state_sha256(), expected) << env;
  }
}

TEST(PpoRunTest, AllFaultsOfTheOptionsAreReportedAtOnce) {
  PpoSetup setup = setup_for("CartPole-v1", 3, 1);
  setup.ppo.gamma = 1.5;
  setup.ppo.learning_rate = -1;
  try {
    PpoRun run(std::move(setup));
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.faults().size(), 3u) << error.what();
    EXPECT_THAT(error.what(),
                ::testing::AllOf(::testing::HasSubstr("num_envs = 8: does not divide into 3 shards"),
                                 ::testing::HasSubstr("gamma is 1.5"), ::testing::HasSubstr("learning_rate is -1")));
  }
}

TEST(PpoRunTest, LinearSchedulesFallToNothingAtTheEnd) {
  PpoSetup setup = setup_for("CartPole-v1", 1, 1);
  setup.total_steps = 4 * setup.ppo.batch_rows();
  setup.ppo.learning_rate_schedule = setup.ppo.clip_range_schedule = Schedule::kLinear;
  const double rate = setup.ppo.learning_rate, clip = setup.ppo.clip_range;
  PpoRun run(std::move(setup));
  for (const double left : {1.0, 0.75, 0.5, 0.25}) {
    const LearnReport report = run.update().learning;
    EXPECT_DOUBLE_EQ(report.learning_rate, rate * left);
    EXPECT_DOUBLE_EQ(report.clip_range, clip * left);
  }
}

TEST(PpoRunTest, TheEntropyBonusFallsToNothingAtTheEnd) {
  PpoSetup setup = setup_for("CartPole-v1", 1, 1);
  setup.total_steps = 2 * setup.ppo.batch_rows();
  setup.ppo.entropy_coef = 0.5;
  const std::string constant = state_after(setup, 2);
  setup.ppo.entropy_coef_schedule = Schedule::kLinear;
  PpoRun run(setup);
  EXPECT_DOUBLE_EQ(run.update().learning.entropy_coef, 0.5);
  EXPECT_DOUBLE_EQ(run.update().learning.entropy_coef, 0.25);
  EXPECT_NE(run.state_sha256(), constant);  // it is what the loss has
}

TEST(PpoRunTest, AKlPenaltyKeepsThePolicyNearTheOneThatSampled) {
  const auto divergence = [](double kl_coef) {
    PpoSetup setup = setup_for("CartPole-v1", 2, 2);
    setup.ppo.learning_rate = 0.01;
    setup.ppo.epochs = 8;
    setup.ppo.kl_coef = kl_coef;
    PpoRun run(std::move(setup));
    return run.update().learning.approx_kl;
  };
  const double without = divergence(0), some = divergence(1), much = divergence(30);
  EXPECT_LT(some, without);
  EXPECT_LT(much, 0.5 * some);
}

TEST(PpoRunTest, TheKlPenaltyIsRaisedAndLoweredToKeepToItsTarget) {
  EXPECT_DOUBLE_EQ(adapted_kl_coef(0.2, 0.01, 0.021, 0.2), 0.3);
  EXPECT_DOUBLE_EQ(adapted_kl_coef(0.2, 0.01, 0.0199, 0.2), 0.2);
  EXPECT_DOUBLE_EQ(adapted_kl_coef(0.2, 0.01, 0.0051, 0.2), 0.2);
  EXPECT_DOUBLE_EQ(adapted_kl_coef(0.2, 0.01, 0.0049, 0.2), 0.1);
  EXPECT_DOUBLE_EQ(adapted_kl_coef(190.0, 0.01, 1.0, 0.2), 200.0) << "no more than the thousandfold";
  EXPECT_DOUBLE_EQ(adapted_kl_coef(0.0003, 0.01, 0.0, 0.2), 0.0002) << "no less than a thousandth";
  PpoSetup setup = setup_for("CartPole-v1", 2, 1);
  setup.ppo.kl_coef = 0.2;
  setup.ppo.kl_coef_target = 1;  // far more than there is
  PpoRun run(setup);
  EXPECT_DOUBLE_EQ(run.update().learning.kl_coef, 0.2);
  EXPECT_DOUBLE_EQ(run.update().learning.kl_coef, 0.1);
}

TEST(PpoRunTest, TargetKlEndsAnUpdateEarly) {
  PpoSetup setup = setup_for("CartPole-v1", 2, 2);
  setup.ppo.learning_rate = 0.1;
  setup.ppo.epochs = 10;
  PpoRun whole(setup);
  EXPECT_EQ(whole.update().learning.minibatches, 20);
  setup.ppo.target_kl = 1e-6;
  PpoRun cut(setup);
  EXPECT_LT(cut.update().learning.minibatches, 20);
}

// With the policy that acted, the surrogate is the mean advantage: 0 where advantages were normalised.
TEST(PpoRunTest, AdvantagesAreNormalisedOverAllShards) {
  const auto first_policy_loss = [](AdvantageNormalization normalization) {
    PpoSetup setup = setup_for("CartPole-v1", 4, 2);
    setup.ppo.epochs = 1;
    setup.ppo.minibatches = 1;
    setup.ppo.advantage_normalization = normalization;
    PpoRun run(std::move(setup));
    return run.update().learning.policy_loss;
  };
  EXPECT_NEAR(first_policy_loss(AdvantageNormalization::kMinibatch), 0, 1e-5);
  EXPECT_NEAR(first_policy_loss(AdvantageNormalization::kBatch), 0, 1e-5);
  EXPECT_GT(std::abs(first_policy_loss(AdvantageNormalization::kNone)), 0.1);
}

TEST(PpoRunTest, CartPoleImproves) {
  PpoSetup setup = setup_for("CartPole-v1", 2, 2);
  setup.total_steps = 60'000;
  setup.ppo = PpoOptions{};
  setup.ppo.learning_rate = 1e-3;
  PpoRun run(std::move(setup));
  RunReport report;
  while (run.env_steps() < 60'000) report = run.update();
  EXPECT_GT(report.episode_return_mean, 120);
  EXPECT_LE(report.learning.explained_variance, 1.0);
}

}  // namespace
}  // namespace tandem::rl
