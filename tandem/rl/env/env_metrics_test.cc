#include "tandem/rl/env/env_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <memory>

#include "tandem/base/testing/message_of.h"
#include "tandem/rl/env/env_adapter.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/multi_agent_adapter.h"
#include "tandem/rl/env/one_agent_group.h"
#include "tandem/rl/env/restarting_envs.h"

namespace tandem::rl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Counts its steps and ends at `goal`, or after four steps.
struct Climb {
  static MetricsOf<Climb> metrics() {
    return {{"success", &Climb::is_up, "Share of the episodes that end at the goal."},
            {"height", [](const Climb& it) { return it.height; }, "Mean height, m.", Over::kSteps},
            {"broken", &Climb::broken}};
  }
  static Spec spec() {
    return {.id = "Climb-v0", .observation = {{.shape = {1}}}, .action = Discrete{3}, .max_episode_steps = 4};
  }
  std::array<float, 1> reset(NumpyGenerator&) {
    height = 0;
    return look();
  }
  // Up for 1; 2 breaks a metric.
  StepResult<std::array<float, 1>> step(std::int64_t action) {
    if (action == 2) broken = std::numeric_limits<double>::infinity();
    height += action == 1 ? 1 : 0;
    return {look(), 0, is_up()};
  }
  [[nodiscard]] bool is_up() const { return height >= goal; }
  [[nodiscard]] std::array<float, 1> look() const { return {static_cast<float>(height)}; }
  [[nodiscard]] std::string save() const { return std::to_string(height); }
  std::array<float, 1> load(std::span<const std::byte> bytes) {
    height = std::stod(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    return look();
  }

  double height = 0, goal = 3, broken = 0;
};

// The same without metrics.
struct PlainClimb : Climb {
  static void metrics() {}
};

// Has the metrics of its base.
struct HighClimb : Climb {
  HighClimb() { goal = 4; }
};

void take_step(EnvGroup& group, const EnvBuffers& buffers, std::vector<std::int64_t> actions) {
  group.step({.discrete = actions.data()}, buffers.arrays());
}

const std::vector<std::uint64_t> kClimbSeeds{1, 2};

TEST(EnvMetricsTest, AnEpisodesMetricsAreItsLastValuesOrTheMeansOverItsSteps) {
  EnvGroupOf<Climb> group(2);
  EnvBuffers buffers(group);
  group.reset(kClimbSeeds, buffers.arrays());
  for (int i = 0; i < 3; ++i) take_step(group, buffers, {1, 0});
  EXPECT_THAT(buffers.metrics(0), ElementsAre(1, 2, 0));  // at the goal; 1, 2 and 3 metres
  EXPECT_THAT(buffers.metrics(1), ElementsAre(0, 0, 0));  // under way: nothing was written
  take_step(group, buffers, {1, 1});
  EXPECT_THAT(buffers.metrics(0), ElementsAre(1, 2, 0));     // the next episode is under way
  EXPECT_THAT(buffers.metrics(1), ElementsAre(0, 0.25, 0));  // cut short by its time limit
  for (int i = 0; i < 3; ++i) take_step(group, buffers, {0, 0});
  EXPECT_THAT(buffers.metrics(0), ElementsAre(0, 1, 0));  // nothing is left of the first episode
}

TEST(EnvMetricsTest, TheSpecListsThemAndAStructWithoutAnyHasNone) {
  EXPECT_EQ(EnvGroupOf<Climb>(1).spec().metrics.size(), 3u);
  EXPECT_EQ(entry_of<Climb>().spec.metrics.at(1).name, "height");
  EXPECT_EQ(entry_of<Climb>().spec.metrics.at(1).over, Over::kSteps);
  EXPECT_TRUE(entry_of<PlainClimb>().spec.metrics.empty());
  EXPECT_EQ(entry_of<HighClimb>().spec.metrics.size(), 3u);
  EXPECT_EQ(OneAgentGroup(std::make_unique<EnvGroupOf<Climb>>(1)).spec().metrics.size(), 3u);
}

TEST(EnvMetricsTest, NamesThatNoReportCanHaveAreRefused) {
  Spec spec = Climb::spec();
  spec.metrics = {{.name = "Success rate"}, {.name = "near"}, {.name = "near"}};
  EXPECT_THAT(message_of<ConfigError>([&] { check_spec(spec); }),
              AllOf(HasSubstr("metric 0 is named 'Success rate'"), HasSubstr("metrics 1 and 2 are both named 'near'")));
  spec.metrics.assign(kMostMetrics + 1, {});
  for (std::size_t i = 0; i < spec.metrics.size(); ++i) spec.metrics[i].name = "m" + std::to_string(i);
  EXPECT_THAT(message_of<ConfigError>([&] { check_spec(spec); }), HasSubstr("has 65 metrics; at most 64"));
}

// Its spec lists a metric of which nobody knows the value.
struct ClaimingClimb : PlainClimb {
  static Spec spec() {
    Spec its = PlainClimb::spec();
    its.metrics = {{.name = "success"}};
    return its;
  }
};

TEST(EnvMetricsTest, ASpecOfAStructListsNoMetricsItself) {
  EXPECT_THAT(message_of<ConfigError>([] { EnvGroupOf<ClaimingClimb>(1); }),
              HasSubstr("a struct lists them in metrics()"));
}

TEST(EnvMetricsTest, AValueThatIsNotFiniteIsNamedWithItsEnvironmentAndStep) {
  EnvGroupOf<Climb> group(2);
  EnvBuffers buffers(group);
  group.reset(kClimbSeeds, buffers.arrays());
  for (int i = 0; i < 3; ++i) take_step(group, buffers, {0, 2});
  EXPECT_THAT(message_of<EnvError>([&] {
                take_step(group, buffers, {0, 0});
              }),
              AllOf(HasSubstr("environment 1 of 2 in step 4 of its episode"), HasSubstr("its metric 'broken' is inf")));
}

TEST(EnvMetricsTest, ASavedStateHoldsTheSumsOfTheEpisodesUnderWay) {
  EnvGroupOf<Climb> group(2), other(2);
  EnvBuffers buffers(group), others(other);
  group.reset(kClimbSeeds, buffers.arrays());
  other.reset(kClimbSeeds, others.arrays());
  for (int i = 0; i < 2; ++i) take_step(group, buffers, {1, 0});
  take_step(other, others, {0, 1});
  other.load(group.save(), others.arrays());
  for (int i = 0; i < 2; ++i) {
    take_step(group, buffers, {1, 1});
    take_step(other, others, {1, 1});
  }
  EXPECT_THAT(others.metrics(0), ElementsAre(1, 2, 0));
  EXPECT_THAT(others.metrics(1), ElementsAre(0, 0.75, 0));  // 0, 0, 1 and 2 metres
  // That of a struct with other metrics is not taken.
  EnvGroupOf<PlainClimb> plain(2);
  EXPECT_THAT(message_of<CheckpointError>([&] { plain.load(group.save(), EnvBuffers(plain).arrays()); }),
              HasSubstr("its format is 3 and must be 1"));
}

// Fails in every second step.
struct FailingClimb : Climb {
  static MetricsOf<FailingClimb> metrics() { return {{"height", &FailingClimb::height, "", Over::kSteps}}; }
  StepResult<std::array<float, 1>> step(std::int64_t action) {
    if (++steps % 2 == 0) throw std::runtime_error("no more");
    return Climb::step(action);
  }
  int steps = 0;
};

TEST(EnvMetricsTest, OfAnEpisodeThatAFailureCutTheyAreNotKnown) {
  RestartingEnvs group([](int count) { return std::make_unique<EnvGroupOf<FailingClimb>>(count); }, 2,
                       std::make_shared<RestartBudget>(10));
  EnvBuffers buffers(group);
  group.reset(kClimbSeeds, buffers.arrays());
  take_step(group, buffers, {1, 1});
  EXPECT_EQ(buffers.metrics(1)[0], 0);
  take_step(group, buffers, {1, 1});
  EXPECT_TRUE(std::isnan(buffers.metrics(0)[0]) && std::isnan(buffers.metrics(1)[0]));
}

// Two climbers; the first one is out at 1 metre, the second one at 2.
struct Climbers {
  static MetricsOf<Climbers> metrics() {
    return {{"gap", [](const Climbers& it) { return it.height[1] - it.height[0]; }},
            {"first", [](const Climbers& it) { return it.height[0]; }, "", Over::kSteps}};
  }
  static MultiAgentSpec spec() {
    const AgentSpec agent{.name = "low", .observation = {{.shape = {1}}}, .action = Discrete{2}};
    MultiAgentSpec spec{.id = "Climbers-v0", .agents = {agent, agent}, .max_episode_steps = 9};
    spec.agents[1].name = "high";
    return spec;
  }
  void reset(NumpyGenerator&) { height = {}; }
  void step(std::span<const AgentAction>, std::span<AgentOutcome> outcomes) {
    for (std::size_t a = 0; a < 2; ++a) {
      if (height[a] > static_cast<double>(a)) continue;
      outcomes[a].terminated = ++height[a] > static_cast<double>(a);
    }
  }
  [[nodiscard]] std::array<float, 1> observe(std::size_t agent) const { return {static_cast<float>(height[agent])}; }

  std::array<double, 2> height{};
};

TEST(EnvMetricsTest, OfSeveralAgentsTheEpisodeEndsWithTheLast) {
  MultiAgentGroupOf<Climbers> group(1);
  ASSERT_EQ(group.spec().metrics.size(), 2u);
  EXPECT_EQ(whole_spec(group.spec()).metrics.size(), 2u);
  EXPECT_TRUE(agent_spec(group.spec(), 0).metrics.empty());
  std::array<float, 2> seen{};
  std::array<double, 2> reward{}, metrics{-1, -1};
  std::array<std::uint8_t, 6> flags{};
  std::vector<AgentArrays> out(2);
  for (std::size_t a = 0; a < 2; ++a) {
    out[a].env.observation = {reinterpret_cast<std::byte*>(&seen[a])};
    out[a].env.reward = &reward[a];
    out[a].env.terminated = &flags[3 * a];
    out[a].env.truncated = &flags[3 * a + 1];
    out[a].acts = &flags[3 * a + 2];
  }
  out[0].env.metrics = metrics.data();
  const std::int64_t nothing = 0;
  const std::vector<EnvActions> actions(2, {.discrete = &nothing});
  group.reset(std::vector<std::uint64_t>{1}, out);
  group.step(actions, out);
  EXPECT_THAT(metrics, ElementsAre(-1, -1));  // one is out, the other is not
  group.step(actions, out);
  EXPECT_THAT(metrics, ElementsAre(1, 1));
}

}  // namespace
}  // namespace tandem::rl
