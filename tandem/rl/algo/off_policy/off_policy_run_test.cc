#include "tandem/rl/algo/off_policy/off_policy_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tandem/base/error.h"
#include "tandem/rl/algo/testing/small_off_policy.h"
#include "tandem/rl/policy/kernels/testing/computes_here.h"

namespace tandem::rl {
namespace {

using rl::testing::computes_here;
using rl::testing::off_policy_state_after;
using rl::testing::small_discrete_sac;
using rl::testing::small_dqn;
using rl::testing::small_sac;
using rl::testing::small_td3;
using rl::testing::SmallOffPolicy;
using ::testing::HasSubstr;

// What options there are, all together: a Rainbow without its noise.
DqnOptions many_options() {
  DqnOptions options;
  options.streams = DqnStreams::kDueling;
  options.returns = DqnReturn::kCategorical;
  options.atoms = 5;
  options.n_step = 3;
  options.priority_alpha = 0.6;
  options.gradient_steps = 2;
  return options;
}

// The products of bfloat16 where this processor has them; layers of 32 units are the smallest that use them.
OffPolicySetup rounded_td3(SmallOffPolicy run) {
  run.networks.hidden = {32, 32};
  Td3Options options;
  // Without any these are larger networks once more.
  const std::vector<Compute> computes = computes_here();
  if (!computes.empty()) options.compute = computes.front();
  return small_td3(run, options);
}

// As in REDQ and DroQ: many critics with norms, of which two drawn ones make a target.
template <typename Options>
Options many_critics(Options options = {}) {
  options.critics = 5;
  options.target_critics = 2;
  options.critic_norm = CriticNorm::kLayer;
  options.gradient_steps = 3;
  return options;
}

OffPolicySetup redq_sac(SmallOffPolicy run) {
  auto options = many_critics<SacOptions>();
  options.actor_value = ActorValue::kMean;
  run.networks.critic_norm = options.critic_norm;
  return small_sac(run, options);
}

struct Kind {
  const char* name;
  std::function<OffPolicySetup(const SmallOffPolicy&)> make;
};

const std::vector<Kind> kKinds{
    {"sac", [](const SmallOffPolicy& run) { return small_sac(run); }},
    {"sac, normalised",
     [](const SmallOffPolicy& run) {
       OffPolicySetup setup = small_sac(run);
       setup.normalizer = {.observations = true, .rewards = true};
       return setup;
     }},
    {"sac of choices", [](const SmallOffPolicy& run) { return small_discrete_sac(run); }},
    {"sac beside its environments",
     [](const SmallOffPolicy& run) {
       SacOptions options;
       options.sampling = Sampling::kBeside;
       return small_sac(run, options);
     }},
    {"sac with many critics", [](const SmallOffPolicy& run) { return redq_sac(run); }},
    {"sac with dropout",
     [](SmallOffPolicy run) {
       SacOptions options;
       options.critic_dropout = run.networks.critic_dropout = 0.1;
       return small_sac(run, options);
     }},
    {"td3 with many critics",
     [](SmallOffPolicy run) {
       run.networks.critic_norm = CriticNorm::kLayer;
       return small_td3(run, many_critics<Td3Options>());
     }},
    {"td3", [](const SmallOffPolicy& run) { return small_td3(run); }},
    {"td3, correlated noise",
     [](const SmallOffPolicy& run) {
       Td3Options options;
       options.noise_correlation = 0.9;
       return small_td3(run, options);
     }},
    {"td3 in bfloat16", [](const SmallOffPolicy& run) { return rounded_td3(run); }},
    {"dqn", [](const SmallOffPolicy& run) { return small_dqn(run); }},
    {"dqn with many options", [](const SmallOffPolicy& run) { return small_dqn(run, many_options()); }},
    {"rainbow",
     [](const SmallOffPolicy& run) {
       DqnOptions options = many_options();
       options.exploration = DqnExploration::kNoisy;
       return small_dqn(run, options);
     }},
};

TEST(OffPolicyRunTest, EveryTopologyGivesTheSameBits) {
  for (const Kind& kind : kKinds) {
    const std::string expected = off_policy_state_after(kind.make({.replicas = 1}), 3);
    for (const int replicas : {2, 4})
      EXPECT_EQ(off_policy_state_after(kind.make({.replicas = replicas}), 3), expected)
          << kind.name << " on " << replicas;
    EXPECT_NE(off_policy_state_after(kind.make({.shards = 2}), 3), expected) << kind.name;
  }
}

// Powers of two, so that twice a rate has the bits of that rate.
TEST(OffPolicyRunTest, AScheduleScalesAllLearningRates) {
  SacOptions slow, scheduled, fast;
  slow.learning_rate = scheduled.learning_rate = 0x1p-10;
  slow.critic_learning_rate = scheduled.critic_learning_rate = 0x1p-9;
  fast.learning_rate = 0x1p-9;
  fast.critic_learning_rate = 0x1p-8;
  scheduled.learning_rate_schedule = Schedule::piecewise({{0, 0x1p-9}});
  EXPECT_EQ(off_policy_state_after(small_sac({}, scheduled), 3), off_policy_state_after(small_sac({}, fast), 3));
  EXPECT_NE(off_policy_state_after(small_sac({}, scheduled), 3), off_policy_state_after(small_sac({}, slow), 3));
  scheduled.learning_rate_schedule = Schedule::kLinear;
  OffPolicyRun run(small_sac({}, scheduled));
  EXPECT_DOUBLE_EQ(run.update().learning.learning_rate, 0x1p-10 * (1 - 60.0 / 4000));
}

// The replay, the target networks, the streams of draws and of noise and the optimizers' moments are part of it; the
// updates are enough for the replay to be overwritten from its beginning.
TEST(OffPolicyRunTest, ASavedRunGoesOnWithTheBitsOfOneThatWasNotInterruptedOnAnotherTopology) {
  for (const Kind& kind : kKinds) {
    OffPolicyRun whole(kind.make({}));
    for (int i = 0; i < 9; ++i) (void)whole.update();
    const learner::StateParts saved = whole.save();
    OffPolicyRun resumed(kind.make({.replicas = 2}));
    EXPECT_EQ(resumed.load([&](const std::string& name) { return learner::part_of(saved, name); }),
              ExperienceWorker::Resumed::kExactly);
    EXPECT_EQ(resumed.state_sha256(), whole.state_sha256()) << kind.name;
    EXPECT_EQ(resumed.env_steps(), whole.env_steps());
    for (int i = 0; i < 3; ++i) {
      const RunReport wanted = whole.update(), now = resumed.update();
      EXPECT_EQ(now.learning.value_loss, wanted.learning.value_loss) << kind.name;
      EXPECT_EQ(now.episode_return_mean, wanted.episode_return_mean) << kind.name;
    }
    EXPECT_EQ(resumed.state_sha256(), whole.state_sha256()) << kind.name;
  }
}

// Layers of 32 units are the smallest that round.
template <typename Make, typename Options>
std::string state_with(const Make& make, Options options, Compute compute) {
  options.compute = compute;
  return off_policy_state_after(make(SmallOffPolicy{.networks = {.hidden = {32, 32}}}, options), 2);
}

TEST(OffPolicyRunTest, ProductsOfBfloat16GiveOtherBitsInEveryAlgorithm) {
  const std::vector<Compute> computes = computes_here();
  if (computes.empty()) return;  // which ComputeTest has a law for
  const auto expect_other = [&computes](const auto& make, const auto& options) {
    EXPECT_NE(state_with(make, options, computes.front()), state_with(make, options, Compute::kFloat32));
  };
  expect_other(small_sac, SacOptions{});
  expect_other(small_td3, Td3Options{});
  expect_other(small_dqn, DqnOptions{});
  expect_other(small_dqn, many_options());
}

TEST(OffPolicyRunTest, NothingIsLearnedBeforeLearningStarts) {
  OffPolicySetup setup = small_sac({});
  setup.off_policy.learning_starts = 100;  // of 64 steps an update
  OffPolicyRun run(std::move(setup));
  const std::string before = run.params_sha256();
  const RunReport first = run.update();
  EXPECT_EQ(first.learning.minibatches, 0);
  EXPECT_TRUE(std::isnan(first.learning.value_loss));
  EXPECT_EQ(run.params_sha256(), before);
  // From step 100 on: 128 - 100 steps with a turn after every four, the one at step 100 included.
  EXPECT_EQ(run.update().learning.minibatches, 8);
  EXPECT_NE(run.params_sha256(), before);
}

double figure(const RunReport& report, const std::string& name) {
  for (const auto& [its, number] : report.own) {
    if (its == name) return number;
  }
  ADD_FAILURE() << name << " is not told";
  return 0;
}

TEST(OffPolicyRunTest, ReportsTellOfTheReplay) {
  DqnOptions options = many_options();
  OffPolicyRun run(small_dqn({}, options));
  RunReport report;
  for (int i = 0; i < 3; ++i) report = run.update();
  EXPECT_EQ(figure(report, "replay_rows"), 3 * 64);
  // Two steps of 16 rows after every four environment steps from step 40 on.
  EXPECT_NEAR(figure(report, "replay_ratio"), 2.0 * 16 * (192 - 40 + 4) / 4 / 192, 1e-9);
  EXPECT_GT(figure(report, "replay_age"), 0);
  EXPECT_GT(figure(report, "priority_max"), 0);
  EXPECT_LT(figure(report, "epsilon"), 1);
  EXPECT_GE(figure(report, "epsilon"), options.last_epsilon);
}

TEST(OffPolicyRunTest, CountsThatDoNotGoTogetherAreNamedWithTheirRemedies) {
  OffPolicySetup setup = small_sac({});
  setup.off_policy.num_envs = 6;
  setup.off_policy.batch_size = 18;
  setup.off_policy.train_every = 5;
  setup.off_policy.replay_size = 4;
  try {
    OffPolicyRun run(std::move(setup));
    FAIL();
  } catch (const ConfigError& error) {
    const std::string what = error.what();
    EXPECT_THAT(what, HasSubstr("num_envs is 6: each of the 4 shards has an equal part; use 4 or 8"));
    EXPECT_THAT(what, HasSubstr("batch_size is 18"));
    EXPECT_THAT(what, HasSubstr("train_every is 5: rollout_steps, 16, must be a multiple of it; use 4 or 8"));
    EXPECT_THAT(what, HasSubstr("replay_size is 4"));
  }
}

// An episode of Pendulum ends by its limit of 200 steps alone, so each end bootstraps: no row may say that it is one.
TEST(OffPolicyRunTest, TimeLimitsEndNoTask) {
  OffPolicyRun run(small_sac({.shards = 1}));
  for (int i = 0; i < 14; ++i) (void)run.update();
  ASSERT_GT(run.episodes().total(), 0);
  ExperienceWorker& worker = *run.workers().front();
  TransitionRows rows = make_transitions(run.spec(), 16, 2);
  for (int i = 0; i < 100; ++i) {
    worker.draw(1, Normalizers(run.spec(), {}), rows);
    EXPECT_GT(rows.discount.min().item<float>(), 0.98F);
  }
}

}  // namespace
}  // namespace tandem::rl
