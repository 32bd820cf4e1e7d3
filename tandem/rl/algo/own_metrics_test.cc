// Metrics of environments' own in whole runs: the same on any topology, and after a resume in the middle of episodes.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>

#include "tandem/learner/testing/local_ranks.h"
#include "tandem/rl/algo/impala/impala_run.h"
#include "tandem/rl/algo/ppo/ppo_run.h"
#include "tandem/rl/env/env_adapter.h"
#include "tandem/rl/env/multi_agent_adapter.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {
namespace {

// Walks from a random place until it is three away from the middle, or seven steps.
struct Stray {
  static MetricsOf<Stray> metrics() {
    return {{"right", [](const Stray& it) { return it.place >= 3; }},
            {"away", [](const Stray& it) { return std::abs(it.place); }, "", Over::kSteps}};
  }
  static Spec spec() {
    return {.id = "Stray-v0", .observation = {{.shape = {1}}}, .action = Discrete{2}, .max_episode_steps = 7};
  }
  std::array<float, 1> reset(NumpyGenerator& random) {
    place = random.uniform(-1, 1);
    return look();
  }
  StepResult<std::array<float, 1>> step(std::int64_t action) {
    place += action == 1 ? 1 : -1;
    return {look(), place, std::abs(place) >= 3};
  }
  [[nodiscard]] std::array<float, 1> look() const { return {static_cast<float>(place)}; }
  [[nodiscard]] std::array<double, 1> save() const { return {place}; }
  std::array<float, 1> load(std::span<const std::byte> bytes) {
    std::memcpy(&place, bytes.data(), sizeof(place));
    return look();
  }

  double place = 0;
};

// Two of them, in one environment.
struct Strays {
  static MetricsOf<Strays> metrics() {
    return {{"gap", [](const Strays& it) { return std::abs(it.both[0].place - it.both[1].place); }, "", Over::kSteps}};
  }
  static MultiAgentSpec spec() {
    const Spec one = Stray::spec();
    return {.id = "Strays-v0",
            .agents = {{.name = "a", .observation = one.observation, .action = one.action},
                       {.name = "b", .observation = one.observation, .action = one.action}},
            .max_episode_steps = 7};
  }
  void reset(NumpyGenerator& random) {
    for (Stray& it : both) it.reset(random);
  }
  void step(std::span<const AgentAction> actions, std::span<AgentOutcome> outcomes) {
    for (std::size_t a = 0; a < 2; ++a) {
      if (actions[a].discrete.empty()) continue;
      const auto [seen, reward, terminated, truncated] = both[a].step(actions[a].discrete.front());
      outcomes[a] = {.reward = reward, .terminated = terminated};
    }
  }
  [[nodiscard]] std::array<float, 1> observe(std::size_t agent) const { return both[agent].look(); }
  [[nodiscard]] std::array<double, 2> save() const { return {both[0].place, both[1].place}; }
  void load(std::span<const std::byte> bytes) {
    for (std::size_t a = 0; a < 2; ++a) both[a].load(bytes.subspan(a * sizeof(double), sizeof(double)));
  }

  std::array<Stray, 2> both;
};

template <typename Setup>
void make_small(Setup& setup, int replicas, bool several) {
  setup.seed = 3;
  setup.total_steps = 4096;
  setup.shards = 4;
  setup.devices = std::vector<c10::Device>(static_cast<std::size_t>(replicas), c10::Device(c10::kCPU));
  if (several) {
    setup.agents =
        SeveralAgents{.policies = {},
                      .make_envs = [](int count) { return std::make_unique<MultiAgentGroupOf<Strays>>(count); },
                      .make_policy =
                          [](const MappedPolicy& policy, at::Generator generator) {
                            return std::make_shared<MlpPolicy>(policy.spec, MlpPolicyOptions{.hidden = {8}}, generator);
                          }};
  } else {
    setup.make_envs = [](int count) { return std::make_unique<EnvGroupOf<Stray>>(count); };
    setup.make_policy = mlp_policy_factory({.hidden = {8}});
  }
}

struct Ppo {
  using Run = PpoRun;
  static PpoSetup setup(int replicas, bool several) {
    PpoSetup setup;
    setup.ppo.num_envs = 8;
    setup.ppo.rollout_steps = 18;  // ends within episodes
    setup.ppo.epochs = 1;
    setup.ppo.minibatches = 2;
    make_small(setup, replicas, several);
    return setup;
  }
};
struct Impala {
  using Run = ImpalaRun;
  static ImpalaSetup setup(int replicas, bool several) {
    ImpalaSetup setup;
    setup.impala.num_envs = 16;
    setup.impala.rollout_steps = 18;
    setup.impala.execution = ImpalaExecution::kInline;
    setup.impala.batches_per_update = 2;
    make_small(setup, replicas, several);
    return setup;
  }
};

using Means = std::vector<std::optional<double>>;
Means means_of(const RunReport& report) {
  Means means;
  for (const MetricReport& metric : report.metrics) means.push_back(metric.mean);
  return means;
}

template <typename Kind>
class OwnMetricsTest : public ::testing::Test {};
using Kinds = ::testing::Types<Ppo, Impala>;
TYPED_TEST_SUITE(OwnMetricsTest, Kinds);

TYPED_TEST(OwnMetricsTest, TheirMeansAreTheSameOnAnyTopologyAndAfterAResume) {
  for (const bool several : {false, true}) {
    typename TypeParam::Run whole(TypeParam::setup(1, several)), first(TypeParam::setup(2, several)),
        second(TypeParam::setup(4, several));
    std::vector<Means> expected;
    for (int i = 0; i < 4; ++i) {
      expected.push_back(means_of(whole.update()));
      if (i == 1) (void)whole.save();  // which learns from what is on its way, as in the run that is stopped
    }
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(means_of(first.update()), expected[i]);
    const learner::StateParts parts = first.save();
    EXPECT_EQ(second.load([&](const std::string& name) { return learner::part_of(parts, name); }),
              RolloutWorker::Resumed::kExactly);
    for (std::size_t i = 2; i < 4; ++i) EXPECT_EQ(means_of(second.update()), expected[i]) << several;
    EXPECT_EQ(second.state_sha256(), whole.state_sha256());
  }
}

TYPED_TEST(OwnMetricsTest, TheirMeansAreTheSameOnSeveralRanks) {
  for (const bool several : {false, true}) {
    typename TypeParam::Run alone(TypeParam::setup(1, several));
    Means expected;
    for (int i = 0; i < 2; ++i) expected = means_of(alone.update());
    const std::vector<learner::Ranks> ranks = learner::make_local_ranks(2);
    std::vector<Means> means(ranks.size());
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      threads.emplace_back([&, rank] {
        auto setup = TypeParam::setup(1, several);
        setup.ranks = ranks[rank];
        setup.rng = model::RngOrder::kUnordered;  // the other rank of this process draws while it is built
        typename TypeParam::Run run(std::move(setup));
        for (int i = 0; i < 2; ++i) means[rank] = means_of(run.update());
      });
    }
    threads.clear();
    EXPECT_EQ(means[0], expected) << several;
    EXPECT_EQ(means[1], expected) << several;
  }
}

TYPED_TEST(OwnMetricsTest, TheyAreMeansOverTheEpisodesOfTheWindow) {
  typename TypeParam::Run run(TypeParam::setup(1, false));
  const RunReport report = run.update();
  ASSERT_EQ(report.metrics.size(), 2u);
  double right = 0, away = 0;
  for (const Episode& episode : run.episodes().episodes()) {
    right += episode.metrics.at(0);
    away += episode.metrics.at(1);
    EXPECT_TRUE(episode.metrics[0] == 0 || episode.metrics[0] == 1);
    EXPECT_TRUE(episode.metrics[1] > 0 && episode.metrics[1] < 4) << episode.metrics[1];
  }
  const auto count = static_cast<double>(run.episodes().episodes().size());
  EXPECT_EQ(*report.metrics[0].mean, right / count);
  EXPECT_EQ(*report.metrics[1].mean, away / count);
  EXPECT_TRUE(right > 0 && right < count);
  const Record figures = figures_of(report);
  EXPECT_EQ(figures.number("env/right"), right / count);
  EXPECT_EQ(figures.number("env/away"), away / count);
}

// A metric that is new since the checkpoint is not known of the episodes before it.
TEST(RestoredEpisodesTest, MetricsAreFoundByTheirNames) {
  EpisodeWindow window, other;
  std::array<Episode, 2> episodes{{{.step = 1, .metrics = {1, 5}}, {.step = 2, .metrics = {2, 6}}}};
  window.add(episodes);
  model::NamedTensors part = run_part_of({}, window, {{.name = "near"}, {.name = "far"}});
  restore_episodes(part, 2, other, {{.name = "far"}, {.name = "new"}});
  EXPECT_EQ(other.mean_metric(0), 5.5);
  EXPECT_EQ(other.mean_metric(1), std::nullopt);
  part.back().second = at::ones({3}, at::kDouble);
  EXPECT_THROW(restore_episodes(part, 2, other, {{.name = "far"}}), CheckpointError);
}

}  // namespace
}  // namespace tandem::rl
