#include "tandem/rl/env/env_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tandem/base/testing/message_of.h"
#include "tandem/rl/env/env_adapter.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/multi_agent_adapter.h"
#include "tandem/rl/env/restarting_envs.h"

namespace tandem::rl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Shows its gravity, and as many elements as its options say; an episode has two steps.
struct Pole {
  struct Options {
    double gravity = 9.8;
    std::int64_t poles = 1;
    bool windy = false;
    std::string floor = "flat";
  };
  static OptionsOf<Options> options() {
    return {{"gravity", &Options::gravity, "Acceleration downwards, m/s^2.", {.least = 0.1, .most = 100}},
            {"poles", &Options::poles, "Poles on the cart.", {.least = 1, .most = 3}},
            {"windy", &Options::windy, "Whether the wind blows."},
            {"floor", &Options::floor, "What the cart rolls on.", {.words = {"flat", "steep"}}}};
  }
  void configure(const Options& options) {
    if (options.windy && options.floor == "steep") throw std::runtime_error("the cart would fly away");
    its = options;
  }
  [[nodiscard]] Spec spec() const {
    return {.id = "Pole-v0", .observation = {{.shape = {its.poles}}}, .action = Discrete{2}, .max_episode_steps = 2};
  }
  std::vector<float> reset(NumpyGenerator& random) {
    start = static_cast<float>(random.random());
    return look();
  }
  StepResult<std::vector<float>> step(std::int64_t) { return {look(), start}; }
  [[nodiscard]] std::string save() const { return std::to_string(start); }
  std::vector<float> load(std::span<const std::byte> bytes) {
    start = std::stof(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    return look();
  }
  [[nodiscard]] std::vector<float> look() const {
    return std::vector<float>(static_cast<std::size_t>(its.poles), static_cast<float>(its.gravity));
  }

  Options its;
  float start = 0;
};

EnvOption option(const std::string& name) {
  const std::vector<EnvOption> all = Pole::options().list();
  return *std::ranges::find(all, name, &EnvOption::name);
}

EnvOptionValue value_of(const std::string& name, const std::string& text, double progress = 0) {
  NumpyGenerator random(1);
  return EnvLaw(option(name), text).value(progress, random);
}

std::string fault_of(const std::string& name, const std::string& text) {
  return message_of<ConfigError>([&] { EnvLaw(option(name), text); });
}

TEST(EnvLawTest, ReadsValuesOfEveryType) {
  EXPECT_EQ(value_of("gravity", "5"), EnvOptionValue(5.0));
  EXPECT_EQ(value_of("gravity", " 1e1 "), EnvOptionValue(10.0));
  EXPECT_EQ(value_of("poles", "3"), EnvOptionValue(std::int64_t{3}));
  EXPECT_EQ(value_of("windy", "true"), EnvOptionValue(true));
  EXPECT_EQ(value_of("floor", "steep"), EnvOptionValue(std::string("steep")));
}

TEST(EnvLawTest, WhatAnOptionDoesNotTakeIsRefusedWithWhatItDoes) {
  EXPECT_THAT(fault_of("gravity", "low"),
              HasSubstr("gravity=low: takes a number from 0.1 to 100, or uniform(LOW, HIGH)"));
  EXPECT_THAT(fault_of("gravity", "0"), HasSubstr("from 0.1 to 100"));
  EXPECT_THAT(fault_of("gravity", "nan"), HasSubstr("takes a number"));
  EXPECT_THAT(fault_of("poles", "1.5"), HasSubstr("takes an integer from 1 to 3"));
  EXPECT_THAT(fault_of("windy", "1"), HasSubstr("takes true or false"));
  EXPECT_THAT(fault_of("floor", "bumpy"), HasSubstr("takes a word of flat, steep"));
  EXPECT_THAT(fault_of("gravity", "uniform(1)"), HasSubstr("takes two values, not 1"));
  EXPECT_THAT(fault_of("gravity", "uniform(2, 1)"), HasSubstr("first value is the lower one"));
  EXPECT_THAT(fault_of("gravity", "uniform(1, 200)"), HasSubstr("'200' is not a number from 0.1 to 100"));
  EXPECT_THAT(fault_of("gravity", "normal(1, 2)"), HasSubstr("there is no 'normal'"));
  EXPECT_THAT(fault_of("floor", "uniform(flat, steep)"), HasSubstr("takes choice(VALUE, ...)"));
  EXPECT_THAT(fault_of("gravity", "uniform(1, 2"), HasSubstr("takes a number"));
  EXPECT_THAT(fault_of("gravity", ""), HasSubstr("takes a number"));
}

TEST(EnvLawTest, LawsOfChanceStayWithinTheirValuesAndReachThem) {
  NumpyGenerator random(7);
  const EnvLaw uniform(option("gravity"), "uniform(0.8, 1.2)"), poles(option("poles"), "uniform(1, 3)"),
      log(option("gravity"), "log_uniform(0.1, 10)"), floor(option("floor"), "choice(flat, steep)");
  double least = 9, most = 0;
  int below_one = 0;
  std::set<std::int64_t> counts;
  std::set<std::string> floors;
  for (int i = 0; i < 1000; ++i) {
    const double gravity = std::get<double>(uniform.value(0, random));
    least = std::min(least, gravity);
    most = std::max(most, gravity);
    below_one += std::get<double>(log.value(0, random)) < 1 ? 1 : 0;
    counts.insert(std::get<std::int64_t>(poles.value(0, random)));
    floors.insert(std::get<std::string>(floor.value(0, random)));
  }
  EXPECT_TRUE(least >= 0.8 && least < 0.81 && most <= 1.2 && most > 1.19) << least << " to " << most;
  EXPECT_NEAR(below_one, 500, 60);  // half of the logarithms
  EXPECT_EQ(counts, (std::set<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(floors, (std::set<std::string>{"flat", "steep"}));
}

TEST(EnvLawTest, ALinearLawFollowsTheRun) {
  EXPECT_EQ(value_of("gravity", "linear(5, 9)", 0), EnvOptionValue(5.0));
  EXPECT_EQ(value_of("gravity", "linear(5, 9)", 0.5), EnvOptionValue(7.0));
  EXPECT_EQ(value_of("gravity", "linear(5, 9)", 2), EnvOptionValue(9.0));
  EXPECT_EQ(value_of("poles", "linear(3, 1)", 0.5), EnvOptionValue(std::int64_t{2}));
}

TEST(EnvOptionsTest, AllFaultsAreToldAtOnce) {
  const auto faults = message_of<ConfigError>([] {
    check_options("Pole-v0", Pole::options().list(),
                  {{"gravty", "5"}, {"poles", "9"}, {"windy", "true"}, {"windy", "false"}});
  });
  EXPECT_THAT(faults, AllOf(HasSubstr("gravty=5: Pole-v0 has no such option; did you mean 'gravity'?"),
                            HasSubstr("poles=9: takes"), HasSubstr("windy=false: windy is set twice")));
  EXPECT_THAT(message_of<ConfigError>([] {
                check_options("Plain-v0", {}, {{"a", "1"}});
              }),
              HasSubstr("a=1: Plain-v0 has no options"));
}

// The gravity that each environment shows.
std::vector<float> shown(const EnvBuffers& buffers, int count) {
  const auto* values = reinterpret_cast<const float*>(buffers.arrays().observation.front());
  return {values, values + count};
}

std::unique_ptr<EnvGroup> poles(int count, const EnvOptionTexts& texts) {
  EnvRegistry registry;
  registry.add<Pole>();
  registry.set_options("Pole-v0", texts);
  return registry.make("Pole-v0", count);
}

void take_steps(EnvGroup& group, EnvBuffers& buffers, int steps) {
  const std::vector<std::int64_t> actions(static_cast<std::size_t>(group.size()), 0);
  for (int i = 0; i < steps; ++i) group.step({.discrete = actions.data()}, buffers.arrays());
}

TEST(EnvOptionsTest, SpecAndEpisodesHaveThem) {
  const auto group = poles(2, {{"gravity", "5"}, {"poles", "2"}});
  EXPECT_EQ(group->spec().observation.front().shape, (std::vector<std::int64_t>{2}));
  EnvBuffers buffers(*group);
  group->reset(std::vector<std::uint64_t>{1, 2}, buffers.arrays());
  EXPECT_EQ(shown(buffers, 4), (std::vector<float>{5, 5, 5, 5}));
  EXPECT_THAT(message_of<ConfigError>([] {
                (void)poles(1, {{"windy", "true"}, {"floor", "steep"}});
              }),
              HasSubstr("environment 'Pole-v0' does not take these options: the cart would fly away"));
  EXPECT_THAT(message_of<ConfigError>([] { (void)poles(1, {{"poles", "4"}}); }), HasSubstr("from 1 to 3"));
}

TEST(EnvOptionsTest, EachEpisodeOfEachEnvironmentDrawsItsOwn) {
  const auto group = poles(3, {{"gravity", "uniform(1, 2)"}});
  EnvBuffers buffers(*group);
  group->reset(std::vector<std::uint64_t>{1, 2, 3}, buffers.arrays());
  std::vector<float> seen = shown(buffers, 3);
  take_steps(*group, buffers, 1);
  EXPECT_EQ(shown(buffers, 3), seen);  // one value for an episode
  take_steps(*group, buffers, 1);
  for (const float next : shown(buffers, 3)) seen.push_back(next);
  EXPECT_EQ(std::set<float>(seen.begin(), seen.end()).size(), 6u);
  // Equal seeds, equal episodes.
  group->reset(std::vector<std::uint64_t>{1, 2, 3}, buffers.arrays());
  EXPECT_EQ(shown(buffers, 3), std::vector<float>(seen.begin(), seen.begin() + 3));
}

TEST(EnvOptionsTest, AnEpisodeThatGoesOnElsewhereKeepsItsOwn) {
  const EnvOptionTexts texts{{"gravity", "uniform(1, 2)"}};
  const auto group = poles(2, texts), other = poles(2, texts);
  EnvBuffers buffers(*group), others(*other);
  group->reset(std::vector<std::uint64_t>{1, 2}, buffers.arrays());
  take_steps(*group, buffers, 1);
  other->load(group->save(), others.arrays());
  EXPECT_EQ(shown(others, 2), shown(buffers, 2));
  take_steps(*group, buffers, 3);
  take_steps(*other, others, 3);
  EXPECT_EQ(shown(others, 2), shown(buffers, 2));
  EXPECT_THAT(message_of<CheckpointError>([&] { poles(2, {})->load(group->save(), others.arrays()); }),
              HasSubstr("its number of options that are set is 1 and must be 0"));
}

TEST(EnvOptionsTest, ALawOverTheRunCountsFromTheNextEpisodeOnAlsoAfterARestart) {
  const EnvOptionTexts texts{{"gravity", "linear(1, 3)"}};
  const auto restarting = std::make_unique<RestartingEnvs>([&](int count) { return poles(count, texts); }, 1,
                                                           std::make_shared<RestartBudget>(1));
  for (EnvGroup* group : {poles(1, texts).release(), static_cast<EnvGroup*>(nullptr)}) {
    const std::unique_ptr<EnvGroup> owned(group);
    EnvGroup& one = group == nullptr ? *restarting : *group;
    EnvBuffers buffers(one);
    one.reset(std::vector<std::uint64_t>{1}, buffers.arrays());
    EXPECT_EQ(shown(buffers, 1), std::vector<float>{1});
    one.set_progress(0.5);
    take_steps(one, buffers, 1);
    EXPECT_EQ(shown(buffers, 1), std::vector<float>{1});
    take_steps(one, buffers, 1);
    EXPECT_EQ(shown(buffers, 1), std::vector<float>{2});
  }
}

}  // namespace
}  // namespace tandem::rl
