#include "tandem/rl/rollout/multi_agent_worker.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/native/kuhn_poker.h"
#include "tandem/rl/env/native/multi_agent_cartpole.h"
#include "tandem/rl/env/one_agent_group.h"
#include "tandem/rl/policy/actor/actor.h"
#include "tandem/rl/policy/mlp_policy.h"
#include "tandem/rl/rollout/rollout_worker.h"

namespace tandem::rl {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;

constexpr std::uint64_t kRunSeed = 5;
constexpr int kEnvironments = 3, kFragmentSteps = 40;

struct Alone {
  explicit Alone(const std::string& env)
      : group(EnvRegistry::native().make(env, kEnvironments)),
        policy(group->spec(), {.hidden = {8}, .policy_gain = 1}, at::detail::createCPUGenerator(1)) {}
  [[nodiscard]] std::unique_ptr<Actor> actor() { return make_actor(policy, {}, kEnvironments, kRunSeed, 0); }
  std::unique_ptr<EnvGroup> group;
  MlpPolicy policy;
};

void expect_the_same(Fragment& expected, Fragment& log) {
  ASSERT_EQ(log.steps, expected.steps * expected.rows);
  const auto equal = [&](const at::Tensor& a, const at::Tensor& b, const char* what) {
    EXPECT_TRUE(at::equal(expected.made(a).flatten(0, 1), log.made(b).flatten(0, 1))) << what;
  };
  equal(expected.observation[0], log.observation[0], "observation");
  equal(expected.action, log.action, "action");
  equal(expected.log_prob, log.log_prob, "log_prob");
  equal(expected.value, log.value, "value");
  equal(expected.reward, log.reward, "reward");
  equal(expected.done, log.done, "done");
  equal(expected.advantage, log.advantage, "advantage");
  equal(expected.value_target, log.value_target, "value_target");
}

// The oracle: an agent alone, with ends of episodes, time limits, several fragments and both kinds of actions.
TEST(MultiAgentWorkerTest, AnAgentThatActsInEveryStepHasTheNumbersThatItHasAlone) {
  for (const char* env : {"CartPole-v1", "Pendulum-v1"}) {
    for (const TimeLimit limit : {TimeLimit::kBootstrap, TimeLimit::kTerminal}) {
      SCOPED_TRACE(env);
      Alone alone(env);
      RolloutWorker worker(EnvRegistry::native().make(env, kEnvironments), alone.actor(),
                           {.steps = kFragmentSteps, .gamma = 0.9, .time_limit = limit, .normalizer = {}}, 6);
      std::vector<PolicySeat> seats;
      seats.push_back({.agents = {0}, .spec = alone.policy.spec(), .actor = alone.actor()});
      MultiAgentWorker several(std::make_unique<OneAgentGroup>(EnvRegistry::native().make(env, kEnvironments)),
                               std::move(seats),
                               {.steps = kFragmentSteps, .gamma = 0.9, .gae_lambda = 0.8, .time_limit = limit}, 6);
      worker.reset(kRunSeed);
      several.reset(kRunSeed);
      const Normalizers none(alone.policy.spec(), {});
      std::size_t episodes = 0;
      for (int fragment = 0; fragment < 6; ++fragment) {
        (void)worker.collect(none);
        compute_gae(worker.fragment(), 0.9, 0.8);
        several.collect();
        expect_the_same(worker.fragment(), several.fragment(0));
        const std::vector<Episode> expected = worker.episodes().finished();
        worker.episodes().clear_finished();
        const std::vector<Episode> whole = several.episodes(), its = several.episodes(0);
        several.clear_episodes();
        ASSERT_EQ(its.size(), expected.size());
        ASSERT_EQ(whole.size(), expected.size());
        for (std::size_t i = 0; i < its.size(); ++i) {
          for (const Episode& each : {its[i], whole[i]}) {
            EXPECT_EQ(each.episode_return, expected[i].episode_return);
            EXPECT_EQ(each.length, expected[i].length);
            EXPECT_EQ(each.step, expected[i].step);
            EXPECT_EQ(each.row, expected[i].row);
          }
        }
        episodes += expected.size();
      }
      EXPECT_GT(episodes, 0U);
    }
  }
}

std::vector<double> numbers_of(const NormalizerMoments& moments) {
  std::vector<double> numbers;
  moments.append_numbers(numbers);
  return numbers;
}

// The same oracle with normalisers, whose moments are merged between fragments, and with a resume in between.
TEST(MultiAgentWorkerTest, AnAgentThatActsInEveryStepIsNormalizedAsItIsAlone) {
  const NormalizerOptions both{.observations = true, .rewards = true, .clip_reward = 1};
  const RolloutOptions options{.steps = kFragmentSteps, .gamma = 0.9, .gae_lambda = 0.8, .normalizer = both};
  for (const char* env : {"CartPole-v1", "Pendulum-v1"}) {
    SCOPED_TRACE(env);
    Alone alone(env);
    const auto make_several = [&] {
      std::vector<PolicySeat> seats;
      seats.push_back({.agents = {0}, .spec = alone.policy.spec(), .actor = alone.actor()});
      return MultiAgentWorker(std::make_unique<OneAgentGroup>(EnvRegistry::native().make(env, kEnvironments)),
                              std::move(seats), options, 6);
    };
    RolloutWorker worker(EnvRegistry::native().make(env, kEnvironments), alone.actor(), options, 6);
    MultiAgentWorker several = make_several(), resumed = make_several();
    worker.reset(kRunSeed);
    several.reset(kRunSeed);
    std::vector<Normalizers> normalizers(1, Normalizers(alone.policy.spec(), both));
    for (int fragment = 0; fragment < 6; ++fragment) {
      MultiAgentWorker& played = fragment < 3 ? several : resumed;
      if (fragment == 3) {
        ASSERT_EQ(resumed.load(several.save(), 0), GroupWorker::Resumed::kExactly);
      }
      (void)worker.collect(normalizers.front());
      compute_gae(worker.fragment(), 0.9, 0.8);
      played.collect(normalizers);
      expect_the_same(worker.fragment(), played.fragment(0));
      EXPECT_EQ(numbers_of(played.moments(0)), numbers_of(worker.moments()));
      normalizers.front().merge(worker.moments());
      normalizers.front().finish_merge();
    }
    EXPECT_LE(worker.fragment().reward.max().item<float>(), 1 + 1.0F) << "clipped, but for what a cut episode adds";
  }
}

// In V-trace's form the same decisions, each with the row of what it sees a step later.
TEST(MultiAgentWorkerTest, WhatFollowsADecisionIsWhatItsAgentSeesNext) {
  Alone alone("CartPole-v1");
  RolloutWorker worker(EnvRegistry::native().make("CartPole-v1", kEnvironments), alone.actor(),
                       {.steps = kFragmentSteps, .normalizer = {}}, 6);
  std::vector<PolicySeat> seats;
  seats.push_back({.agents = {0}, .spec = alone.policy.spec(), .actor = alone.actor()});
  MultiAgentWorker several(std::make_unique<OneAgentGroup>(EnvRegistry::native().make("CartPole-v1", kEnvironments)),
                           std::move(seats), {.steps = kFragmentSteps}, 6);
  worker.reset(kRunSeed);
  several.reset(kRunSeed);
  const std::vector<std::unique_ptr<DecisionFragment>> fragments = several.make_fragments();
  bool ended_at_the_end = false;
  for (int i = 0; i < 6; ++i) {
    (void)worker.collect(Normalizers(alone.policy.spec(), {}));
    several.collect({}, fragments);
    Fragment& expected = worker.fragment();
    DecisionFragment& made = *fragments[0];
    const int count = expected.steps * expected.rows;
    ASSERT_EQ(made.decisions.steps, count);
    EXPECT_EQ(several.decisions(0), count);
    EXPECT_TRUE(
        at::equal(expected.made(expected.reward).flatten(), made.decisions.made(made.decisions.reward).flatten()));
    const at::Tensor seen = expected.observation[0].flatten(0, 1), theirs = made.decisions.observation[0].flatten(0, 1);
    const auto* done = expected.done.const_data_ptr<std::uint8_t>();
    int beyond = 0;
    for (int row = 0; row < count; ++row) {
      const std::int64_t next = made.next[static_cast<std::size_t>(row)];
      if (done[row] != 0) {
        EXPECT_EQ(next, DecisionFragment::kEpisodeEnds);
        ended_at_the_end = ended_at_the_end || row >= count - expected.rows;
        continue;
      }
      if (row >= count - expected.rows) {
        EXPECT_EQ(next, count + beyond++);
      } else {
        EXPECT_EQ(next, row + expected.rows);
      }
      EXPECT_TRUE(at::equal(theirs[next], seen[row + expected.rows])) << row;
    }
    EXPECT_EQ(made.beyond, beyond);
  }
  EXPECT_TRUE(ended_at_the_end) << "of such a row nothing follows, and nothing is kept";
}

// Plays moves that were written down, with values and probabilities that tell decisions apart.
class ScriptedMoves final : public Actor {
 public:
  explicit ScriptedMoves(std::vector<std::int64_t> moves) : moves_(std::move(moves)) {}
  void refresh() override {}
  void act(const std::vector<at::Tensor>&, const at::Tensor&, const Decisions& out) override {
    out.discrete[0] = moves_.at(at_);
    out.value[0] = static_cast<float>(++at_);
    out.log_prob[0] = -out.value[0];
  }
  void episodes_ended(std::span<const std::uint8_t>) override {}
  void evaluate(const std::vector<at::Tensor>&, const at::Tensor&, float* value) override { value[0] = 100; }
  [[nodiscard]] std::vector<std::byte> save() const override { return {static_cast<std::byte>(at_)}; }
  void load(std::span<const std::byte> state) override { at_ = static_cast<std::size_t>(state[0]); }

 private:
  const std::vector<std::int64_t> moves_;
  std::size_t at_ = 0;
};

// player_0: check, (waits), fold; bet, (waits); check, ...    player_1: (waits), bet, (waits); (waits), fold; ...
MultiAgentWorker two_players(int steps, bool second_learns = true) {
  using enum KuhnPoker::Move;
  std::vector<PolicySeat> seats;
  const std::vector<std::vector<std::int64_t>> moves{{kCheck, 0, kFold, kBet, 0, kCheck, 0, kBet},
                                                     {0, kBet, 0, 0, kFold, 0, kCheck, 0}};
  for (std::size_t player = 0; player < 2; ++player) {
    seats.push_back({.agents = {player},
                     .spec = agent_spec(KuhnPoker::spec(), player),
                     .actor = std::make_unique<ScriptedMoves>(moves[player]),
                     .learns = player == 0 || second_learns});
  }
  return {std::make_unique<MultiAgentGroupOf<KuhnPoker>>(1),
          std::move(seats),
          {.steps = steps, .gamma = 0.5, .gae_lambda = 0.5},
          0};
}

std::vector<float> numbers_in(Fragment& fragment, const at::Tensor& tensor) {
  const at::Tensor made = fragment.made(tensor).flatten().to(at::kFloat);
  return {made.const_data_ptr<float>(), made.const_data_ptr<float>() + made.numel()};
}

TEST(MultiAgentWorkerTest, ADecisionIsCompleteWhenItsAgentDecidesAgainOrEnds) {
  MultiAgentWorker worker = two_players(5);
  worker.reset(kRunSeed);
  worker.collect();
  Fragment& first = worker.fragment(0);
  EXPECT_THAT(numbers_in(first, first.value), ElementsAre(1, 3, 4));
  EXPECT_THAT(numbers_in(first, first.log_prob), ElementsAre(-1, -3, -4));
  EXPECT_THAT(numbers_in(first, first.action), ElementsAre(KuhnPoker::kCheck, KuhnPoker::kFold, KuhnPoker::kBet));
  EXPECT_THAT(numbers_in(first, first.reward), ElementsAre(0, -1, 1)) << "the second bet won a step later";
  EXPECT_THAT(numbers_in(first, first.done), ElementsAre(0, 1, 1));
  EXPECT_THAT(numbers_in(first, first.action_mask), ElementsAre(1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0));
  // -1 - 3; 0 + 0.5 * 3 - 1 + 0.25 * -4; 1 - 4
  EXPECT_THAT(numbers_in(first, first.advantage), ElementsAre(-0.5F, -4, -3));
  EXPECT_THAT(numbers_in(first, first.value_target), ElementsAre(0.5F, -1, 1));
  Fragment& second = worker.fragment(1);
  EXPECT_THAT(numbers_in(second, second.value), ElementsAre(2, 5));
  EXPECT_THAT(numbers_in(second, second.reward), ElementsAre(1, -1));
  const std::vector<Episode> episodes = worker.episodes(0);
  ASSERT_EQ(episodes.size(), 2U);
  EXPECT_EQ(episodes[0].episode_return, -1);
  EXPECT_EQ(episodes[0].length, 3);
  EXPECT_EQ(episodes[1].length, 2);
  EXPECT_EQ(worker.episodes()[0].episode_return, 0) << "of both together";
}

TEST(MultiAgentWorkerTest, AnOpenDecisionGoesIntoTheNextFragmentAndWhatFollowsHasItsValue) {
  MultiAgentWorker worker = two_players(2);
  worker.reset(kRunSeed);
  worker.collect();  // check, bet: player_0 acts next, so its check is complete; player_1 waits for the outcome
  Fragment& first = worker.fragment(0);
  EXPECT_THAT(numbers_in(first, first.value), ElementsAre(1));
  EXPECT_THAT(numbers_in(first, first.advantage), ElementsAre(FloatNear(0.5F * 100 - 1, 1e-5F)));
  EXPECT_EQ(worker.fragment(1).steps, 0);
  worker.collect();  // fold; then the second deal's bet, whose outcome is open
  EXPECT_THAT(numbers_in(first, first.value), ElementsAre(3));
  Fragment& second = worker.fragment(1);
  EXPECT_THAT(numbers_in(second, second.value), ElementsAre(2));
  EXPECT_THAT(numbers_in(second, second.reward), ElementsAre(1));
  worker.collect();  // player_1 folds; the third deal's check
  EXPECT_THAT(numbers_in(first, first.value), ElementsAre(4));
  EXPECT_THAT(numbers_in(first, first.reward), ElementsAre(1));
}

// player_0 checks, player_1 bets: what follows the check is what player_0 sees now, when it acts next. Then player_0
// folds, and the second deal's bet is open: of a decision after it in the fragment it would be what follows.
TEST(MultiAgentWorkerTest, WhatFollowsTheLastDecisionLiesBeyondTheOthers) {
  MultiAgentWorker worker = two_players(2);
  worker.reset(kRunSeed);
  const std::vector<std::unique_ptr<DecisionFragment>> fragments = worker.make_fragments();
  worker.collect({}, fragments);
  DecisionFragment& first = *fragments[0];
  EXPECT_EQ(first.decisions.steps, 1);
  EXPECT_EQ(first.beyond, 1);
  EXPECT_EQ(first.next[0], 1);
  const at::Tensor seen = first.decisions.observation[0].select(1, 0);
  EXPECT_FALSE(at::equal(seen[0], seen[1])) << "the second player's bet has been seen";
  const at::Tensor mask = first.decisions.action_mask.select(1, 0);
  EXPECT_FALSE(at::equal(mask[0], mask[1])) << "call or fold";
  EXPECT_EQ(fragments[1]->decisions.steps, 0);
  EXPECT_EQ(fragments[1]->beyond, 0);
  worker.collect({}, fragments);
  EXPECT_EQ(first.next[0], DecisionFragment::kEpisodeEnds);
  EXPECT_EQ(first.beyond, 0);
  EXPECT_EQ(fragments[1]->next[0], DecisionFragment::kEpisodeEnds);
}

TEST(MultiAgentWorkerTest, ASavedGroupGoesOnWithOpenDecisions) {
  MultiAgentWorker whole = two_players(2), other = two_players(2);
  whole.reset(kRunSeed);
  whole.collect();
  const std::vector<std::byte> state = whole.save();
  EXPECT_EQ(other.load(state, 0), RolloutWorker::Resumed::kExactly);
  for (int i = 0; i < 2; ++i) {
    whole.collect();
    other.collect();
    for (std::size_t policy = 0; policy < 2; ++policy) {
      Fragment &a = whole.fragment(policy), &b = other.fragment(policy);
      EXPECT_EQ(numbers_in(a, a.value), numbers_in(b, b.value));
      EXPECT_EQ(numbers_in(a, a.advantage), numbers_in(b, b.advantage));
      EXPECT_EQ(numbers_in(a, a.observation[0]), numbers_in(b, b.observation[0]));
    }
    const std::vector<Episode> its = whole.episodes(0), others = other.episodes(0);
    whole.clear_episodes();
    other.clear_episodes();
    ASSERT_EQ(its.size(), others.size());
    for (std::size_t e = 0; e < its.size(); ++e) EXPECT_EQ(its[e].length, others[e].length);
  }
  std::vector<std::byte> cut(state.begin(), state.end() - 3);
  EXPECT_THROW((void)other.load(cut, 0), CheckpointError);
  EXPECT_THROW((void)two_players(2, false).load(state, 0), CheckpointError) << "one policy less that learns";
}

// Carts that have fallen wait: what they are worth is theirs, and no step of the others.
TEST(MultiAgentWorkerTest, AgentsOutOfTheGameDecideNothing) {
  const Spec spec = agent_spec(MultiAgentCartPole::spec(), 0);
  MlpPolicy policy(spec, {.hidden = {8}}, at::detail::createCPUGenerator(1));
  constexpr int kPairs = 2;
  std::vector<PolicySeat> seats;
  seats.push_back({.agents = {0, 1, 2, 3}, .spec = spec, .actor = make_actor(policy, {}, 4 * kPairs, kRunSeed, 0)});
  MultiAgentWorker worker(std::make_unique<MultiAgentGroupOf<MultiAgentCartPole>>(kPairs), std::move(seats),
                          {.steps = 200}, 0);
  worker.reset(kRunSeed);
  worker.collect();
  const std::vector<Episode> agents = worker.episodes(0), whole = worker.episodes();
  ASSERT_GT(whole.size(), 3U);
  Fragment& fragment = worker.fragment(0);
  EXPECT_LT(fragment.steps, 200 * 4 * kPairs) << "some waited";
  double earned = 0, ended = 0;
  for (const Episode& episode : agents) {
    EXPECT_EQ(episode.episode_return, static_cast<double>(episode.length)) << "1 a step until it fell";
    ++ended;
  }
  for (const float reward : numbers_in(fragment, fragment.reward)) earned += reward;
  EXPECT_EQ(earned, fragment.steps) << "each decision earned 1, and none was made out of the game";
  double dones = 0;
  for (const float done : numbers_in(fragment, fragment.done)) dones += done;
  EXPECT_EQ(dones, ended);
  for (const Episode& episode : whole) EXPECT_LE(episode.episode_return, 4.0 * static_cast<double>(episode.length));
}

}  // namespace
}  // namespace tandem::rl
