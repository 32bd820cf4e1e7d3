// IMPALA and APPO of environments with several agents.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/rl/algo/impala/impala_run.h"
#include "tandem/rl/algo/impala/impala_seats.h"
#include "tandem/rl/algo/run_parts.h"
#include "tandem/rl/algo/testing/small_impala.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/one_agent_group.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kGameSteps = 20 * 8 * 16;  // batches of two workers with eight environments each

struct Game {
  std::string env = "KuhnPoker-v0";
  PolicyMapOptions policies = {};
};
Game carts(std::vector<std::string> trained = {}) {
  return {.env = "MultiAgentCartPole-v0",
          .policies = {.policies = {"leader", "others"},
                       .mapping = mapping_of({"cart_0=leader", "*=others"}),
                       .policies_to_train = std::move(trained)}};
}

ImpalaSetup several_agents(const Game& game, const testing::SmallImpala& run = {}) {
  ImpalaSetup setup = testing::small_impala(run);
  setup.total_steps = kGameSteps;
  setup.make_envs = nullptr;
  setup.make_policy = nullptr;
  setup.agents = SeveralAgents{
      .policies = game.policies,
      .make_envs = [env = game.env](int count) { return EnvRegistry::native().find_multi_agent(env)->make(count); },
      .make_policy =
          [](const MappedPolicy& policy, at::Generator generator) {
            return std::make_shared<MlpPolicy>(policy.spec, MlpPolicyOptions{.hidden = {16}}, generator);
          }};
  return setup;
}

RunReport play_to_the_end(ImpalaRun& run) {
  RunReport last;
  while (run.env_steps() < kGameSteps || !run.all_reported()) last = run.update();
  return last;
}

struct Learning {
  std::string name;
  Game game;
  testing::SmallImpala run = {};
  LossKernel kernel = LossKernel::kAuto;
  NormalizerOptions normalizer = {};
};

class MultiAgentImpalaTest : public ::testing::TestWithParam<Learning> {
 protected:
  static ImpalaSetup setup(int shards, int replicas) {
    testing::SmallImpala run = GetParam().run;
    run.shards = shards;
    run.replicas = replicas;
    ImpalaSetup setup = several_agents(GetParam().game, run);
    setup.impala.kernel = GetParam().kernel;
    setup.normalizer = GetParam().normalizer;
    return setup;
  }
  static std::string state_of(int shards, int replicas) {
    ImpalaRun run(setup(shards, replicas));
    (void)play_to_the_end(run);
    return run.state_sha256();
  }
};

TEST_P(MultiAgentImpalaTest, WithTheSameShardsAnyNumberOfReplicasGivesTheSameBits) {
  const std::string expected = state_of(4, 1);
  EXPECT_EQ(state_of(4, 2), expected);
  EXPECT_EQ(state_of(4, 4), expected);
  EXPECT_NE(state_of(1, 1), expected) << "other env groups, and sums over other parts";
}

TEST_P(MultiAgentImpalaTest, ARunThatWasSavedGoesOnWithTheSameBitsOnOtherReplicas) {
  ImpalaRun first(setup(4, 4)), second(setup(4, 2));
  for (int i = 0; i < 2; ++i) (void)first.update();
  const learner::StateParts parts = first.save();
  EXPECT_EQ(second.load([&](const std::string& name) { return learner::part_of(parts, name); }),
            RolloutWorker::Resumed::kExactly);
  EXPECT_EQ(second.state_sha256(), first.state_sha256());
  const RunReport expected = play_to_the_end(first), report = play_to_the_end(second);
  EXPECT_EQ(second.state_sha256(), first.state_sha256());
  EXPECT_EQ(second.params_sha256(), first.params_sha256());
  for (std::size_t p = 0; p < 2; ++p) {
    EXPECT_EQ(report.policies[p].episodes, expected.policies[p].episodes);
    EXPECT_EQ(report.policies[p].episode_return_mean, expected.policies[p].episode_return_mean);
  }
  const auto counters = [](ImpalaRun& run) { return find(learner::part_of(run.save(), "run"), "counters", "run"); };
  EXPECT_TRUE(at::equal(counters(second), counters(first))) << "what all replicas learned from is counted";
}

INSTANTIATE_TEST_SUITE_P(Of, MultiAgentImpalaTest,
                         ::testing::Values(Learning{"Kuhn", {}}, Learning{"KuhnAutograd", {}, {}, LossKernel::kOff},
                                           Learning{"Carts", carts()}, Learning{"CartsAppo", carts(), {.appo = true}},
                                           Learning{"KuhnAppoAutograd", {}, {.appo = true}, LossKernel::kOff},
                                           Learning{"CartsDivided", carts(), {.strategy = sync::DividedOptions{}}},
                                           Learning{"OneTrained", carts({"others"}), {.appo = true}},
                                           Learning{"KuhnScaled", {}, {}, LossKernel::kAuto, {.rewards = true}},
                                           Learning{"CartsNormalized",
                                                    carts(),
                                                    {.appo = true},
                                                    LossKernel::kAuto,
                                                    {.observations = true, .rewards = true}}),
                         [](const auto& test) { return test.param.name; });

at::Tensor parameters_in(const learner::StateParts& parts, const std::string& policy) {
  std::vector<at::Tensor> all;
  for (const auto& [name, tensor] : learner::part_of(parts, PolicyNames(policy).part)) {
    if (tensor.is_floating_point() && name.find("optimizer") == std::string::npos) all.push_back(tensor.flatten());
  }
  return at::cat(all).clone();
}

TEST(MultiAgentImpalaRunTest, PoliciesThatAreNotTrainedActAndStayAsTheyAre) {
  ImpalaRun run(several_agents(carts({"others"})));
  const learner::StateParts before = run.save();
  const at::Tensor leader = parameters_in(before, "leader"), others = parameters_in(before, "others");
  const RunReport report = run.update();
  const learner::StateParts after = run.save();
  EXPECT_TRUE(at::equal(parameters_in(after, "leader"), leader));
  EXPECT_FALSE(at::equal(parameters_in(after, "others"), others));
  ASSERT_EQ(report.policies.size(), 2U);
  EXPECT_FALSE(report.policies[0].learning.has_value());
  EXPECT_EQ(report.policies[0].decisions, 0) << "nobody learned from any";
  EXPECT_GT(report.policies[0].episodes, 0) << "it plays on";
  ASSERT_TRUE(report.policies[1].learning.has_value());
  EXPECT_EQ(report.learning.entropy, report.policies[1].learning->entropy);
  EXPECT_EQ(report.policies[1].learning->minibatches, 5);
}

// It plays with what was saved, not with what it began with.
TEST(MultiAgentImpalaRunTest, AResumedRunPlaysWithThePoliciesOfTheCheckpoint) {
  ImpalaRun first(several_agents(carts({"others"})));
  learner::StateParts parts = first.save();
  for (auto& [name, tensors] : parts) {
    if (name != PolicyNames("leader").part) continue;
    for (auto& [parameter, tensor] : tensors) tensor = at::zeros_like(tensor);
  }
  ImpalaRun second(several_agents(carts({"others"})));
  (void)second.load([&](const std::string& name) { return learner::part_of(parts, name); });
  EXPECT_EQ(parameters_in(second.save(), "leader").abs().max().item<float>(), 0);
  const RunReport with_chance = (second.update(), second.update());
  const RunReport as_begun = (first.update(), first.update());
  EXPECT_NE(with_chance.policies[0].episode_length_mean, as_begun.policies[0].episode_length_mean);
}

TEST(MultiAgentImpalaRunTest, PoliciesAreReportedEachWithItsOwnNumbers) {
  ImpalaRun run(several_agents({}));
  const RunReport report = run.update();
  ASSERT_EQ(report.policies.size(), 2U);
  const PolicyReport &first = report.policies[0], &second = report.policies[1];
  EXPECT_EQ(first.name, "player_0");
  EXPECT_EQ(first.episode_return_mean, -second.episode_return_mean);
  EXPECT_EQ(report.episode_return_mean, 0) << "the sum over both";
  EXPECT_EQ(first.episodes, report.episodes);
  EXPECT_LE(first.decisions + second.decisions, 5 * 8 * 16) << "one acts in each step";
  EXPECT_GT(first.decisions + second.decisions, 5 * 8 * 14) << "and few wait for their outcome";
  EXPECT_NE(first.learning->entropy, second.learning->entropy);
  EXPECT_EQ(report.learning.entropy, (first.learning->entropy + second.learning->entropy) / 2);
  EXPECT_EQ(report.learning.minibatches, 5);
  EXPECT_EQ(report.pipeline->samples_trained, 5 * 8 * 16) << "environment steps";
}

// The speaker says a word for a long time before the listener may act.
struct LongSpeech {
  static MultiAgentSpec spec() {
    const std::vector<Leaf> seen{{.shape = {1}}};
    return {.id = "LongSpeech-v0",
            .agents = {{.name = "speaker", .observation = seen, .action = Discrete{2}},
                       {.name = "listener", .observation = seen, .action = Discrete{2}}}};
  }
  void reset(NumpyGenerator&) { at = 0; }
  void step(std::span<const AgentAction>, std::span<AgentOutcome> outcomes) {
    ++at;
    for (AgentOutcome& outcome : outcomes) outcome = {.reward = 1, .terminated = at == 25};
  }
  [[nodiscard]] std::array<float, 1> observe(std::size_t) const { return {static_cast<float>(at)}; }
  [[nodiscard]] bool acts(std::size_t agent) const { return agent == 0 || at == 20; }
  std::int64_t at = 0;
};

TEST(MultiAgentImpalaRunTest, APolicyWithoutADecisionMakesNoStepOfThatBatch) {
  ImpalaSetup setup = several_agents({}, {.shards = 2, .replicas = 2});
  EnvRegistry environments;
  environments.add_multi_agent<LongSpeech>();
  setup.agents->make_envs = environments.find_multi_agent("LongSpeech-v0")->make;
  ImpalaRun run(setup);
  const RunReport report = run.update();
  EXPECT_EQ(report.policies[0].learning->minibatches, 5);
  const std::int64_t steps = report.policies[1].learning->minibatches;
  EXPECT_GT(steps, 0);
  EXPECT_LT(steps, 5) << "of fragments of 16 steps, that with step 20 is one in two";
  EXPECT_EQ(report.policies[1].decisions, steps * 8) << "one of each environment";
  (void)play_to_the_end(run);
}

// With workers, loaders and the learner at once.
TEST(MultiAgentImpalaRunTest, ThreadsSampleAndLearnAtTheSameTime) {
  ImpalaSetup setup = several_agents(carts(), {.appo = true, .shards = 2, .replicas = 2});
  setup.impala.execution = ImpalaExecution::kThreads;
  setup.impala.max_policy_lag = 6;
  ImpalaRun run(setup);
  const RunReport report = play_to_the_end(run);
  EXPECT_EQ(run.env_steps(), kGameSteps);
  EXPECT_EQ(report.pipeline->samples_sampled, kGameSteps);
  const learner::StateParts parts = run.save();
  EXPECT_EQ(find(learner::part_of(parts, "run"), "counters", "run")[5].item<std::int64_t>(),
            report.pipeline->samples_trained);
  EXPECT_EQ(run.queue_slots().idle, run.queue_slots().all);
}

TEST(MultiAgentImpalaRunTest, ASharedPolicyLearnsFromAllItsAgents) {
  ImpalaSetup setup = several_agents({.env = "MultiAgentCartPole-v0", .policies = {.policies = {"shared"}}});
  setup.total_steps = 40'960;
  setup.impala.learning_rate = 2e-3;
  ImpalaRun run(setup);
  const double before = run.update().policies[0].episode_return_mean;
  RunReport report;
  while (run.env_steps() < setup.total_steps || !run.all_reported()) report = run.update();
  EXPECT_LT(before, 40);
  EXPECT_GT(report.policies[0].episode_return_mean, 80);
}

std::string why_refused(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(MultiAgentImpalaRunTest, WhatCannotBeIsRefusedBeforeWorkStarts) {
  const auto refused = [](const std::function<void(ImpalaSetup&)>& change) {
    ImpalaSetup setup = several_agents({});
    change(setup);
    return why_refused([&] { ImpalaRun run(setup); });
  };
  EXPECT_EQ(refused([](ImpalaSetup&) {}), "no error");
  EXPECT_THAT(refused([](ImpalaSetup& s) { s.agents->policies.policies_to_train = {"x"}; }), HasSubstr("'x'"));
  EXPECT_THAT(refused([](ImpalaSetup& s) {
                s.strategy = sync::AsynchronousOptions{};
                s.devices.resize(2, c10::kCPU);
              }),
              HasSubstr("replicated"));
  EXPECT_THAT(refused([](ImpalaSetup& s) {
                s.shards = 1;
                s.impala.splits = 2;
              }),
              HasSubstr("splits is 2"));
  EXPECT_THAT(refused([](ImpalaSetup& s) { s.impala.sequence_length = 4; }), HasSubstr("remember"));
  EXPECT_THAT(refused([](ImpalaSetup& s) {
                s.agents->make_policy = [](const MappedPolicy& policy, at::Generator generator) {
                  return recurrent_policy_factory({.mlp = {.hidden = {8}}, .size = 8})(policy.spec, generator);
                };
              }),
              HasSubstr("policy 'player_0' remembers"));
}

// The oracle: of an agent that acts in every step, decisions are the rows of its trajectory.
TEST(MultiAgentImpalaLossTest, AnAgentThatActsInEveryStepLearnsWhatItLearnsAlone) {
  constexpr int kEnvsOfBoth = 6, kStepsOfBoth = 40;
  for (const bool appo : {false, true}) {
    for (const LossKernel kernel : {LossKernel::kAuto, LossKernel::kOff}) {
      ImpalaSetup setup = testing::small_impala({.appo = appo, .shards = 1});
      setup.impala.kernel = kernel;
      const auto make = [](int count) { return EnvRegistry::native().make("CartPole-v1", count); };
      const Spec spec = make(1)->spec();
      const LearnedPolicy learned{.build = [&] { return setup.make_policy(spec, at::detail::createCPUGenerator(7)); },
                                  .seed = 1};
      ImpalaLearner alone(setup, learned, std::chrono::minutes(1)), several(setup, learned, std::chrono::minutes(1));
      const std::shared_ptr<ActorCritic> acting = setup.make_policy(spec, at::detail::createCPUGenerator(8));
      const auto actor = [&] { return make_actor(*acting, {}, kEnvsOfBoth, 5, 0); };
      RolloutWorker worker(make(kEnvsOfBoth), actor(), {.steps = kStepsOfBoth, .normalizer = {}}, 0);
      std::vector<PolicySeat> seats;
      seats.push_back({.agents = {0}, .spec = spec, .actor = actor()});
      MultiAgentWorker agents(std::make_unique<OneAgentGroup>(make(kEnvsOfBoth)), std::move(seats),
                              {.steps = kStepsOfBoth}, 0);
      worker.reset(3);
      agents.reset(3);
      Fragment fragment = worker.make_fragment();
      const Normalizers none(spec, {});
      worker.begin(none, fragment);
      for (int t = 0; t < kStepsOfBoth; ++t) worker.step(none);
      (void)worker.end();
      const std::vector<std::unique_ptr<DecisionFragment>> fragments = agents.make_fragments();
      agents.collect({}, fragments);
      Trajectory trajectory(fragment, 1, c10::kCPU);
      trajectory.copy_from({&fragment, 1});
      Trajectory decisions(*fragments[0], c10::kCPU);
      decisions.copy_from(*fragments[0]);
      ASSERT_EQ(decisions.decisions(), kStepsOfBoth * kEnvsOfBoth);

      const ImpalaLearner::Step expected = alone.step({&trajectory.batch(), 1}, 1);
      const ImpalaLearner::Step made = several.step({&decisions.batch(), 1}, 1);
      const ImpalaNumbers &a = expected.shards[0], &b = made.shards[0];
      EXPECT_EQ(b.rows, a.rows);
      EXPECT_NEAR(b.policy_loss, a.policy_loss, 1e-5);
      EXPECT_NEAR(b.value_loss, a.value_loss, 1e-4);
      EXPECT_NEAR(b.entropy, a.entropy, 1e-5);
      EXPECT_NEAR(b.approx_kl, a.approx_kl, 1e-5);
      if (!appo) {
        EXPECT_GT(a.approx_kl, 0) << "another policy acted";
      }
      EXPECT_NEAR(b.explained_variance, a.explained_variance, 1e-4);
      EXPECT_NEAR(made.grad_norm, expected.grad_norm, 1e-4 * expected.grad_norm);
    }
  }
}

}  // namespace
}  // namespace tandem::rl
