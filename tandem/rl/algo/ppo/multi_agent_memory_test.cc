// PPO of several agents whose policies remember.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/rl/algo/ppo/ppo_rows.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/one_agent_group.h"
#include "tandem/rl/policy/mlp_policy.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::rl {
namespace {

using ::testing::ElementsAre;

// Each of two agents is shown a light; then, in turns, each says which it was. Between the two its partner acts.
struct Relay {
  static MultiAgentSpec spec() {
    const std::vector<Leaf> seen{{.shape = {1}}};
    return {.id = "Relay-v0",
            .agents = {{.name = "first", .observation = seen, .action = Discrete{2}},
                       {.name = "second", .observation = seen, .action = Discrete{2}}}};
  }
  void reset(NumpyGenerator& random) {
    for (std::int64_t& light : lights) light = random.integers(0, 2);
    turn = 0;
  }
  void step(std::span<const AgentAction> actions, std::span<AgentOutcome> outcomes) {
    const std::size_t agent = turn % 2;
    if (turn >= 2 && actions[agent].discrete.front() == lights[agent]) outcomes[agent].reward = 1;
    if (++turn < 4) return;
    for (AgentOutcome& outcome : outcomes) outcome.terminated = true;
  }
  std::array<float, 1> observe(std::size_t agent) const {
    if (turn >= 2) return {0.0F};
    return {lights[agent] == 1 ? 1.0F : -1.0F};
  }
  bool acts(std::size_t agent) const { return agent == turn % 2; }

  std::array<std::int64_t, 2> lights{};
  std::size_t turn = 0;
};

std::unique_ptr<MultiAgentGroup> make_game(const std::string& env, int count) {
  if (env != "Relay-v0") return EnvRegistry::native().find_multi_agent(env)->make(count);
  EnvRegistry environments;
  environments.add_multi_agent<Relay>();
  return environments.find_multi_agent(env)->make(count);
}

PpoSetup game_of_memory(const std::string& env, int shards, int replicas, NamedPolicyFactory make_policy) {
  PpoSetup setup;
  setup.seed = 3;
  setup.total_steps = 16'384;
  setup.shards = shards;
  setup.devices.assign(static_cast<std::size_t>(replicas), c10::Device(c10::kCPU));
  setup.ppo.num_envs = 8;
  setup.ppo.rollout_steps = 32;
  setup.ppo.epochs = 2;
  setup.ppo.minibatches = 2;
  setup.ppo.sequences = SequenceOptions{.length = 8};
  setup.agents = SeveralAgents{.policies = {},
                               .make_envs = [env](int count) { return make_game(env, count); },
                               .make_policy = std::move(make_policy)};
  return setup;
}

NamedPolicyFactory remembering(CellKind cell) {
  return [cell](const MappedPolicy& policy, at::Generator generator) {
    return recurrent_policy_factory({.mlp = {.hidden = {16}}, .cell = cell, .size = 8})(policy.spec, generator);
  };
}

// One remembers, the other does not.
std::shared_ptr<ActorCritic> second_remembers(const MappedPolicy& policy, at::Generator generator) {
  if (policy.name.ends_with('1') || policy.name == "others") return remembering(CellKind::kGru)(policy, generator);
  return std::make_shared<MlpPolicy>(policy.spec, MlpPolicyOptions{.hidden = {16}}, generator);
}

std::string state_with_memory(PpoSetup setup, int updates) {
  PpoRun run(std::move(setup));
  for (int i = 0; i < updates; ++i) (void)run.update();
  return run.state_sha256();
}

TEST(MultiAgentMemoryTest, EveryTopologyGivesTheSameBitsAndASavedRunGoesOnWithThem) {
  struct Case {
    const char* env;
    NamedPolicyFactory make_policy;
    int burn_in = 0;
    PolicyMapOptions policies = {};
  };
  const PolicyMapOptions carts{.policies = {"leader", "others"},
                               .mapping = mapping_of({"cart_0=leader", "*=others"}),
                               .policies_to_train = {"others"}};
  for (const Case& it : {Case{"KuhnPoker-v0", remembering(CellKind::kLstm)}, Case{"KuhnPoker-v0", second_remembers, 3},
                         Case{"MultiAgentCartPole-v0", remembering(CellKind::kGru), 0, carts},
                         Case{"MultiAgentCartPole-v0", second_remembers, 4, carts}}) {
    const auto setup = [&](int replicas) {
      PpoSetup s = game_of_memory(it.env, 4, replicas, it.make_policy);
      s.ppo.sequences->burn_in = it.burn_in;
      s.agents->policies = it.policies;
      s.normalizer.rewards = true;
      return s;
    };
    const std::string expected = state_with_memory(setup(1), 4);
    EXPECT_EQ(state_with_memory(setup(2), 4), expected) << it.env;
    PpoRun first(setup(4)), second(setup(2));
    for (int i = 0; i < 2; ++i) (void)first.update();
    const learner::StateParts parts = first.save();
    EXPECT_EQ(second.load([&](const std::string& name) { return learner::part_of(parts, name); }),
              RolloutWorker::Resumed::kExactly);
    for (int i = 0; i < 2; ++i) (void)second.update();
    EXPECT_EQ(second.state_sha256(), expected) << it.env << ", burn-in " << it.burn_in;
  }
}

// What DD-PPO does: some groups end early, and some rest.
TEST(MultiAgentMemoryTest, RolloutsMayEndEarlyAndRest) {
  const auto setup = [&](int replicas) {
    PpoSetup s = game_of_memory("KuhnPoker-v0", 4, replicas, remembering(CellKind::kLstm));
    s.ppo.sequences->burn_in = 2;
    s.stragglers.recorded = {{32, 9, 20, 3}, {5, 32, 0, 13}, {32, 0, 0, 32}};
    return s;
  };
  EXPECT_EQ(state_with_memory(setup(4), 3), state_with_memory(setup(1), 3));
}

// The oracle: an agent alone, whose rollout has the same sequences. The one's lie as a rectangle, the other's joined.
TEST(MultiAgentMemoryTest, AnAgentThatActsInEveryStepHasTheSequencesThatItHasAlone) {
  constexpr int kRows = 3;
  for (const int burn_in : {0, 5}) {
    for (const char* env : {"CartPole-v1", "Pendulum-v1"}) {
      const SequenceOptions sequences{.length = 8, .burn_in = burn_in};
      const RolloutOptions options{.steps = 40, .gamma = 0.9, .gae_lambda = 0.8, .sequences = sequences};
      const auto make = [&] { return EnvRegistry::native().make(env, kRows); };
      const std::shared_ptr<ActorCritic> policy = recurrent_policy_factory({.mlp = {.hidden = {8}}, .size = 4})(
          make()->spec(), at::detail::createCPUGenerator(1));
      RolloutWorker worker(make(), make_actor(*policy, {}, kRows, 5, 0), options, 0);
      std::vector<PolicySeat> seats;
      seats.push_back({.agents = {0}, .spec = policy->spec(), .actor = make_actor(*policy, {}, kRows, 5, 0)});
      MultiAgentWorker several(std::make_unique<OneAgentGroup>(make()), std::move(seats), options, 0);
      worker.reset(5);
      several.reset(5);
      for (int i = 0; i < 6; ++i) {
        (void)worker.collect(Normalizers(policy->spec(), {}));
        compute_gae(worker.fragment(), 0.9, 0.8);
        several.collect();
        const learner::Batch expected = ppo_sequences(worker.fragment(), sequences);
        const learner::Batch its = ppo_sequences(several.fragment(0), sequences);
        ASSERT_EQ(its.columns.size(), expected.columns.size());
        for (std::size_t column = 0; column < its.columns.size(); ++column)
          EXPECT_TRUE(at::equal(its.columns[column].second, expected.columns[column].second))
              << expected.columns[column].first << " of " << env;
        EXPECT_TRUE(at::equal(its.states.front().second, expected.states.front().second)) << env;
      }
    }
  }
}

// Remembers how often it acted, and says so as its value.
struct Counting final : RecurrentActorCritic {
  explicit Counting(const Spec& spec) : RecurrentActorCritic(spec) {
    weight = register_parameter("weight", at::zeros({1}));
  }
  [[nodiscard]] std::int64_t state_size() const override { return 1; }
  SequenceOutput forward_sequences(const SequenceInput& input) override {
    const std::int64_t sequences = input.state.size(0), steps = input.observation[0].size(0) / sequences;
    at::Tensor state = input.state;
    std::vector<at::Tensor> values;
    for (std::int64_t t = 0; t < steps; ++t) {
      if (input.start.defined()) state = state.masked_fill(input.start[t].unsqueeze(1) != 0, 0);
      state = state + 1;
      values.push_back(state.squeeze(1));
    }
    const at::Tensor value = at::cat(values) + weight;
    return {.output = {.action_parameters = {weight.expand({sequences * steps, 2})}, .value = value}, .state = state};
  }
  at::Tensor weight;
};

// While its partner acts, an agent remembers what it did before; a new episode begins with nothing.
TEST(MultiAgentMemoryTest, WhoWaitsForgetsNothingAndLearnsNothing) {
  constexpr int kGames = 2;
  std::vector<std::shared_ptr<Counting>> policies;
  std::vector<PolicySeat> seats;
  const std::unique_ptr<MultiAgentGroup> like = make_game("Relay-v0", 1);
  for (std::size_t agent = 0; agent < 2; ++agent) {
    policies.push_back(std::make_shared<Counting>(agent_spec(like->spec(), agent)));
    seats.push_back({.agents = {agent},
                     .spec = policies.back()->spec(),
                     .actor = make_actor(*policies.back(), {}, kGames, 1, static_cast<int>(agent))});
  }
  const RolloutOptions options{.steps = 7, .sequences = {.length = 2}};
  MultiAgentWorker worker(make_game("Relay-v0", kGames), std::move(seats), options, 0);
  worker.reset(1);
  const auto numbers = [](const at::Tensor& made) {
    const at::Tensor flat = made.flatten().contiguous();
    return std::vector<float>(flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel());
  };
  // 7 steps are turns 0 to 3, then 0 to 2, so that first has acted 4 times, and second 3 times; first's last decision
  // is open.
  worker.collect();
  Fragment& first = worker.fragment(0);
  EXPECT_THAT(first.joined, ElementsAre(3, 3));
  EXPECT_THAT(numbers(first.made(first.value)), ElementsAre(1, 2, 1, 1, 2, 1));
  EXPECT_THAT(numbers(first.state.narrow(0, 0, 4)), ElementsAre(0, 0, 0, 0)) << "each sequence of two begins a game";
  EXPECT_THAT(worker.fragment(1).joined, ElementsAre(3, 3));
  // Turns 3, then 0 to 3, then 0 and 1; first acts next.
  worker.collect();
  EXPECT_THAT(numbers(first.made(first.value)), ElementsAre(2, 1, 2, 1, 2, 1, 2, 1));
  EXPECT_THAT(numbers(first.state.narrow(0, 0, 4)), ElementsAre(1, 1, 1, 1)) << "and here each begins within one";
}

// Memoryless policies are right half of the time.
TEST(MultiAgentMemoryTest, AgentsThatRememberSolveWhatCannotBeSeen) {
  const auto trained = [](NamedPolicyFactory make_policy, bool remembers) {
    PpoSetup setup = game_of_memory("Relay-v0", 2, 2, std::move(make_policy));
    if (!remembers) setup.ppo.sequences.reset();
    setup.ppo.learning_rate = 0.01;
    PpoRun run(setup);
    RunReport report;
    while (run.env_steps() < setup.total_steps) report = run.update();
    return report.episode_return_mean;
  };
  EXPECT_GT(trained(remembering(CellKind::kGru), true), 1.9);
  EXPECT_GT(trained(remembering(CellKind::kLstm), true), 1.9);
  EXPECT_LT(trained(
                [](const MappedPolicy& policy, at::Generator generator) {
                  return std::make_shared<MlpPolicy>(policy.spec, MlpPolicyOptions{.hidden = {16}}, generator);
                },
                false),
            1.3);
}

}  // namespace
}  // namespace tandem::rl
