#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/base/error.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/multi_agent_adapter.h"
#include "tandem/rl/policy/mlp_policy.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::rl {
namespace {

using ::testing::HasSubstr;

PpoSetup several(const std::string& env, int shards, int replicas, PolicyMapOptions policies = {}) {
  PpoSetup setup;
  setup.seed = 3;
  setup.total_steps = 4096;
  setup.shards = shards;
  setup.devices = std::vector<c10::Device>(static_cast<std::size_t>(replicas), c10::Device(c10::kCPU));
  setup.ppo.num_envs = 8;
  setup.ppo.rollout_steps = 32;
  setup.ppo.epochs = 2;
  setup.ppo.minibatches = 2;
  setup.agents =
      SeveralAgents{.policies = std::move(policies),
                    .make_envs = [env](int count) { return EnvRegistry::native().find_multi_agent(env)->make(count); },
                    .make_policy =
                        [](const MappedPolicy& policy, at::Generator generator) {
                          return std::make_shared<MlpPolicy>(policy.spec, MlpPolicyOptions{.hidden = {16}}, generator);
                        }};
  return setup;
}

PolicyMapOptions leader_and_others() {
  return {.policies = {"leader", "others"}, .mapping = mapping_of({"cart_0=leader", "*=others"})};
}

std::string state_after_updates(PpoRun& run, int updates) {
  for (int i = 0; i < updates; ++i) (void)run.update();
  return run.state_sha256();
}

TEST(MultiAgentRunTest, EveryTopologyGivesTheSameBits) {
  struct Case {
    const char* env;
    PolicyMapOptions policies;
  };
  for (const Case& it : {Case{"KuhnPoker-v0", {}}, Case{"MultiAgentCartPole-v0", leader_and_others()}}) {
    for (const LossKernel kernel : {LossKernel::kAuto, LossKernel::kOff}) {
      const auto state = [&](int shards, int replicas) {
        PpoSetup setup = several(it.env, shards, replicas, it.policies);
        setup.ppo.kernel = kernel;
        PpoRun run(setup);
        return state_after_updates(run, 4);
      };
      const std::string expected = state(4, 1);
      for (const int replicas : {2, 3, 4}) EXPECT_EQ(state(4, replicas), expected) << it.env << " on " << replicas;
      EXPECT_NE(state(2, 1), expected);
    }
  }
}

TEST(MultiAgentRunTest, ASavedRunGoesOnExactlyOnAnotherTopology) {
  for (const char* env : {"KuhnPoker-v0", "MultiAgentCartPole-v0"}) {
    const auto setup = [&](int replicas) {
      PolicyMapOptions policies = std::string(env) == "KuhnPoker-v0" ? PolicyMapOptions{} : leader_and_others();
      policies.policies_to_train = {std::string(env) == "KuhnPoker-v0" ? "player_1" : "others"};
      PpoSetup s = several(env, 4, replicas, policies);
      s.ppo.kl_coef = 0.2;
      s.ppo.kl_coef_target = 1e-7;
      return s;
    };
    PpoRun whole(setup(1)), first(setup(2)), second(setup(4));
    (void)state_after_updates(whole, 5);
    (void)state_after_updates(first, 3);
    const learner::StateParts parts = first.save();
    EXPECT_EQ(second.load([&](const std::string& name) { return learner::part_of(parts, name); }),
              RolloutWorker::Resumed::kExactly);
    EXPECT_EQ(second.updates(), 3);
    const RunReport report = (second.update(), second.update());
    EXPECT_EQ(second.state_sha256(), whole.state_sha256()) << env;
    EXPECT_EQ(second.params_sha256(), whole.params_sha256());
    EXPECT_EQ(second.env_steps(), whole.env_steps());
    EXPECT_EQ(second.episodes().total(), whole.episodes().total());
    EXPECT_EQ(second.episodes().mean_length(), whole.episodes().mean_length());
    EXPECT_GT(report.policies[1].learning->kl_coef, 0.2);
  }
}

const NormalizerOptions kBoth{.observations = true, .rewards = true};

TEST(MultiAgentRunTest, EachPolicyIsNormalizedByWhatItsAgentsSeeOnAnyTopology) {
  const auto setup = [](int replicas) {
    PpoSetup s = several("MultiAgentCartPole-v0", 4, replicas, leader_and_others());
    s.normalizer = kBoth;
    return s;
  };
  PpoRun whole(setup(1)), first(setup(2)), second(setup(4)), plain(several("MultiAgentCartPole-v0", 4, 1));
  const std::string expected = state_after_updates(whole, 4);
  EXPECT_NE(state_after_updates(plain, 4), expected);
  (void)state_after_updates(first, 2);
  const learner::StateParts parts = first.save();
  EXPECT_EQ(second.load([&](const std::string& name) { return learner::part_of(parts, name); }),
            RolloutWorker::Resumed::kExactly);
  EXPECT_EQ(second.state_sha256(), first.state_sha256());
  EXPECT_EQ(state_after_updates(second, 2), expected);
  const auto count = [&](std::size_t policy) {
    return find(whole.normalizers(policy).state(), "observation.0", "")[0].item<double>();
  };
  EXPECT_GT(count(0), 0);
  EXPECT_GT(count(1), 2 * count(0)) << "three carts, of which each decides as often";
  EXPECT_NE(whole.normalizers(0).mean_and_std(0).first.data_ptr<float>()[2],
            whole.normalizers(1).mean_and_std(0).first.data_ptr<float>()[2]);
}

// It would be another policy if it saw other numbers.
TEST(MultiAgentRunTest, TheNormalizersOfAFrozenPolicyStayAsTheyAre) {
  PolicyMapOptions policies = leader_and_others();
  policies.policies_to_train = {"others"};
  PpoSetup setup = several("MultiAgentCartPole-v0", 2, 2, policies);
  setup.normalizer = kBoth;
  PpoRun run(setup);
  (void)run.update();
  EXPECT_EQ(find(run.normalizers(0).state(), "observation.0", "")[0].item<double>(), 0);
  EXPECT_GT(find(run.normalizers(1).state(), "observation.0", "")[0].item<double>(), 0);
  EXPECT_GT(find(run.normalizers(1).state(), "discounted_return", "")[0].item<double>(), 0);
}

at::Tensor parameters_of(ActorCritic& policy) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : policy.parameters()) all.push_back(parameter.detach().flatten().clone());
  return at::cat(all);
}

TEST(MultiAgentRunTest, AFrozenPolicyStaysAsItIsAndTheHashCoversIt) {
  PolicyMapOptions policies = leader_and_others();
  policies.policies_to_train = {"others"};
  PpoRun run(several("MultiAgentCartPole-v0", 2, 2, policies));
  const at::Tensor leader = parameters_of(run.policy(0)), others = parameters_of(run.policy(1));
  EXPECT_FALSE(at::equal(leader, others)) << "each begins with parameters of its own";
  const std::string state = run.state_sha256(), params = run.params_sha256();
  const RunReport report = run.update();
  EXPECT_TRUE(at::equal(parameters_of(run.policy(0)), leader));
  EXPECT_FALSE(at::equal(parameters_of(run.policy(1)), others));
  ASSERT_EQ(report.policies.size(), 2U);
  EXPECT_FALSE(report.policies[0].learning.has_value());
  EXPECT_GT(report.policies[0].episodes, 0) << "it plays on";
  EXPECT_TRUE(report.policies[1].learning.has_value());
  EXPECT_EQ(report.learning.entropy, report.policies[1].learning->entropy);
  PpoRun again(several("MultiAgentCartPole-v0", 2, 1, policies));
  EXPECT_EQ(again.state_sha256(), state);
  {
    const at::NoGradGuard no_grad;
    again.policy(0).parameters()[0].add_(1);
  }
  EXPECT_NE(again.state_sha256(), state);
  EXPECT_NE(again.params_sha256(), params);
}

TEST(MultiAgentRunTest, PoliciesAreReportedEachWithItsOwnNumbers) {
  PpoRun run(several("KuhnPoker-v0", 2, 1));
  const RunReport report = run.update();
  ASSERT_EQ(report.policies.size(), 2U);
  const PolicyReport &first = report.policies[0], &second = report.policies[1];
  EXPECT_EQ(first.name, "player_0");
  EXPECT_EQ(first.episode_return_mean, -second.episode_return_mean);
  EXPECT_NE(first.episode_return_mean, 0);
  EXPECT_EQ(report.episode_return_mean, 0) << "the sum over both";
  EXPECT_EQ(first.episodes, report.episodes);
  EXPECT_LE(first.decisions + second.decisions, 8 * 32) << "one acts in each step";
  EXPECT_GT(first.decisions + second.decisions, 8 * 30) << "and few wait for their outcome";
  EXPECT_NE(first.learning->entropy, second.learning->entropy);
  EXPECT_EQ(report.learning.entropy, (first.learning->entropy + second.learning->entropy) / 2);
}

TEST(MultiAgentRunTest, ASharedPolicyLearnsFromAllItsAgents) {
  PpoSetup setup = several("MultiAgentCartPole-v0", 2, 2, {.policies = {"shared"}});
  setup.total_steps = 16'384;
  setup.ppo.epochs = 10;
  setup.ppo.minibatches = 4;
  setup.ppo.learning_rate = 2e-3;
  PpoRun run(setup);
  const double before = run.update().policies[0].episode_return_mean;
  while (run.env_steps() < setup.total_steps) (void)run.update();
  const RunReport report = run.update();
  EXPECT_LT(before, 40);
  EXPECT_GT(report.policies[0].episode_return_mean, 100);
  EXPECT_GT(report.episode_return_mean, 400) << "of four carts";
  EXPECT_GE(report.policies[0].decisions, 8 * 32);
}

std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Two agents see a word, which has no mean.
struct Words {
  static MultiAgentSpec spec() {
    const std::vector<Leaf> seen{{.type = ElementType::kInt64, .low = {0}, .high = {2}}};
    return {.id = "Words-v0",
            .agents = {{.name = "speaker", .observation = seen, .action = Discrete{2}},
                       {.name = "listener", .observation = seen, .action = Discrete{2}}}};
  }
  void reset(NumpyGenerator& /*random*/) {}
  void step(std::span<const AgentAction> /*actions*/, std::span<AgentOutcome> /*outcomes*/) {}
  std::int64_t observe(std::size_t agent) const { return static_cast<std::int64_t>(agent); }
};

TEST(MultiAgentRunTest, WhatCannotBeIsRefusedBeforeWorkStarts) {
  const auto refused = [](const std::function<void(PpoSetup&)>& change) {
    PpoSetup setup = several("KuhnPoker-v0", 2, 1);
    change(setup);
    return refusal([&] { PpoRun run(setup); });
  };
  EXPECT_EQ(refused([](PpoSetup&) {}), "no error");
  EXPECT_THAT(refused([](PpoSetup& s) { s.agents->policies.policies_to_train = {"x"}; }), HasSubstr("'x'"));
  EXPECT_THAT(refused([](PpoSetup& s) { s.strategy = sync::AsynchronousOptions{}; }), HasSubstr("replicated"));
  EXPECT_THAT(refused([](PpoSetup& s) { s.ppo.gamma = 2; }), HasSubstr("gamma"));
  EXPECT_THAT(refused([](PpoSetup& s) { s.ppo.sequences = SequenceOptions{}; }), HasSubstr("not recurrent"));
  EXPECT_THAT(refused([](PpoSetup& s) {
                s.normalizer.observations = true;
                s.agents->make_envs = [](int count) { return std::make_unique<MultiAgentGroupOf<Words>>(count); };
              }),
              HasSubstr("observations of Words-v0/speaker cannot be normalised"));
  EXPECT_THAT(refused([](PpoSetup& s) { s.ppo.batch_mode = BatchMode::kCompleteEpisodes; }), HasSubstr("batch_mode"));
  EXPECT_THAT(refused([](PpoSetup& s) {
                s.agents->make_policy = [](const MappedPolicy& policy, at::Generator generator) {
                  return recurrent_policy_factory({.mlp = {.hidden = {8}}, .size = 8})(policy.spec, generator);
                };
              }),
              HasSubstr("how long its sequences are"));
}

TEST(MultiAgentRunTest, TooFewDecisionsForTheMinibatchesAreAnErrorThatNamesThePolicy) {
  PpoSetup setup = several("KuhnPoker-v0", 2, 2);
  setup.ppo.num_envs = 2;
  setup.ppo.rollout_steps = 8;
  setup.ppo.minibatches = 8;
  PpoRun run(setup);
  const std::string why = refusal([&] { (void)run.update(); });
  EXPECT_THAT(why, HasSubstr("policy 'player_"));
  EXPECT_THAT(why, HasSubstr("8 minibatches"));
}

}  // namespace
}  // namespace tandem::rl
