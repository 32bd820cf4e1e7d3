#include "tandem/rl/algo/off_policy/off_policy_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tandem/base/error.h"
#include "tandem/base/testing/message_of.h"
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

// Normalisers take up what an update has shown at its end, so with them an update's length counts.
TEST(OffPolicyRunTest, HowManyStepsMakeAnUpdateChangesNoNumberUnlessNormalisersLearn) {
  for (const Kind& kind : kKinds) {
    OffPolicySetup twice_as_long = kind.make({});
    twice_as_long.off_policy.rollout_steps *= 2;
    const bool has_normalizers = twice_as_long.normalizer.observations;
    const bool is_same = off_policy_state_after(kind.make({}), 4) == off_policy_state_after(twice_as_long, 2);
    EXPECT_EQ(is_same, !has_normalizers) << kind.name;
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
  if (computes.empty()) GTEST_SKIP() << "this processor multiplies no bfloat16";
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

TEST(OffPolicyRunTest, NumbersThatOthersAreDividedByOrThatCannotTeachAreNamed) {
  const auto refused = [](const std::function<void(OffPolicySetup&)>& change) {
    OffPolicySetup setup = small_sac({});
    change(setup);
    return message_of<ConfigError>([&] { OffPolicyRun run(std::move(setup)); });
  };
  EXPECT_THAT(refused([](auto& its) { its.shards = its.off_policy.train_every = 0; }),
              ::testing::AllOf(HasSubstr("shards is 0; it must be at least 1"), HasSubstr("train_every is 0")));
  EXPECT_THAT(refused([](auto& its) { its.off_policy.gamma = 1.5; }), HasSubstr("gamma is 1.5"));
  EXPECT_THAT(refused([](auto& its) { its.off_policy.tau = 0; }), HasSubstr("tau is 0; it must be a positive number"));
  EXPECT_THAT(refused([](auto& its) { its.learning_rate = -1; }), HasSubstr("learning_rate is -1"));
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

// The replay remembers what was taken: a critic that is never asked for more learns of nothing beyond the bounds.
TEST(OffPolicyRunTest, ActionsAreRememberedWithinTheirBounds) {
  Td3Options options;
  options.exploration_noise = 2;
  OffPolicyRun run(small_td3({.shards = 1}, options));
  for (int i = 0; i < 4; ++i) (void)run.update();
  TransitionRows rows = make_transitions(run.spec(), 16, 1);
  int at_a_bound = 0;
  for (int i = 0; i < 20; ++i) {
    run.workers().front()->draw(1, Normalizers(run.spec(), {}), rows);
    EXPECT_LE(rows.action.abs().max().item<float>(), 1);
    at_a_bound += (rows.action.abs() == 1).sum().item<int>();
  }
  EXPECT_GT(at_a_bound, 0) << "no noise led beyond";
}

model::NamedTensors targets_after(const Td3Options& options, int updates) {
  OffPolicyRun run(small_td3({}, options));
  for (int i = 0; i < updates; ++i) (void)run.update();
  model::NamedTensors targets = learner::part_of(run.save(), "target");
  for (auto& [name, tensor] : targets) tensor = tensor.clone();
  return targets;
}
bool are_equal(const model::NamedTensors& a, const model::NamedTensors& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) { return at::equal(x.second, y.second); });
}

// There are six turns of learning in the first update, of which the second, the fourth and the sixth teach the policy.
TEST(OffPolicyRunTest, TargetsFollowAfterSoManyTurnsInWhichThePolicyLearns) {
  Td3Options options;
  const model::NamedTensors first = targets_after(options, 0);
  EXPECT_FALSE(are_equal(targets_after(options, 1), first));
  options.target_every = 3;
  EXPECT_FALSE(are_equal(targets_after(options, 1), first));
  options.target_every = 4;
  EXPECT_TRUE(are_equal(targets_after(options, 1), first));
  EXPECT_FALSE(are_equal(targets_after(options, 2), first));
}

TEST(OffPolicyRunTest, HindsightIsRefusedBesideTheEnvironmentsThatItAsks) {
  SacOptions options;
  options.sampling = Sampling::kBeside;
  EXPECT_THAT(count_faults(options, 1, 1), ::testing::IsEmpty());
  options.hindsight = Hindsight::kFuture;
  EXPECT_THAT(count_faults(options, 1, 1),
              ::testing::ElementsAre(::testing::Field(&CountFault::key, ::testing::StrEq("sampling"))));
}

OffPolicySetup stacked(const SmallOffPolicy& run, bool is_shared) {
  OffPolicySetup setup = small_dqn(run);
  EnvRegistry registry = EnvRegistry::native();
  registry.set_wrappers("CartPole-v1", {"frame_stack=3:zero", "reward_clip=sign"});
  setup.make_envs = [registry](int count) { return registry.make("CartPole-v1", count); };
  if (is_shared) setup.frame_stacks = registry.frame_stacks("CartPole-v1");
  return setup;
}

TEST(OffPolicyRunTest, FramesOfStacksAreKeptOnceAndTheNumbersAreThoseOfWholeStacks) {
  OffPolicyRun shared(stacked({}, true)), whole(stacked({}, false));
  for (int i = 0; i < 9; ++i) {
    (void)shared.update();
    (void)whole.update();
  }
  EXPECT_EQ(shared.state_sha256(), whole.state_sha256());
  const auto frames_of = [](const OffPolicyRun& run) {
    return run.workers().front()->replay().options().leaves.front().frames;
  };
  EXPECT_EQ(frames_of(shared), 3);
  EXPECT_EQ(frames_of(whole), 1);
  // A checkpoint of a build that kept them whole.
  const learner::StateParts saved = whole.save();
  OffPolicyRun resumed(stacked({.replicas = 2}, true));
  EXPECT_EQ(resumed.load([&](const std::string& name) { return learner::part_of(saved, name); }),
            ExperienceWorker::Resumed::kExactly);
  EXPECT_EQ(frames_of(resumed), 1);
  (void)shared.update();
  (void)resumed.update();
  EXPECT_EQ(resumed.state_sha256(), shared.state_sha256());
}

}  // namespace
}  // namespace tandem::rl
