#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/app/config/algorithm.h"
#include "tandem/app/testing/native_algorithms.h"
#include "tandem/app/tune/tuning.h"
#include "tandem/base/error.h"
#include "tandem/rl/algo/impala/impala_options.h"

namespace tandem::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Four cores.
const Machine kMachine{.cores = 4, .devices = {{"cpu", 1}, {"cpu:2", 2}, {"cpu:4", 4}}};

TrainOptions ppo(std::int64_t shards) {
  TrainOptions options;
  options.env = "CartPole-v1";
  options.shards = shards;
  return options;
}

TrainOptions impala() {
  TrainOptions options = ppo(1);
  options.algo = "impala";
  return options;
}

std::vector<std::string> described(const std::vector<Layout>& layouts) {
  std::vector<std::string> texts;
  for (const Layout& layout : layouts) texts.push_back(describe(layout));
  return texts;
}

Knob knob_of(const std::string& word, const TrainOptions& given) {
  for (const Knob& knob : algorithm_of(given).knobs(given, kMachine)) {
    if (knob.word == word) return knob;
  }
  ADD_FAILURE() << word;
  return {};
}

std::vector<std::string> faults_of(const TrainOptions& given, const std::vector<std::string>& vary) {
  try {
    (void)layouts_of(given, vary, kMachine);
  } catch (const ConfigError& error) {
    return error.faults();
  }
  return {};
}

TEST(LayoutTest, ByDefaultOnlyWhatCannotChangeLearningVaries) {
  const std::vector<Layout> layouts = layouts_of(ppo(2), {}, kMachine);
  EXPECT_THAT(described(layouts), ElementsAre("as given", "devices cpu:2", "devices cpu:2, strategy divided"));
  for (const Layout& layout : layouts) EXPECT_EQ(layout.learning, Learning::kSameBits);

  const std::vector<Layout> of_impala = layouts_of(impala(), {}, kMachine);
  EXPECT_THAT(described(of_impala), ElementsAre("as given", "impala.loaders 2"));  // it has two buffers
  EXPECT_EQ(of_impala.back().learning, Learning::kSameButForTiming);
}

TEST(LayoutTest, EveryReplicaHasAShard) {
  EXPECT_THAT(described(layouts_of(ppo(2), {"devices", "shards"}, kMachine)),
              ElementsAre("as given", "shards 1", "shards 4", "devices cpu:2", "devices cpu:2, shards 4",
                          "devices cpu:4, shards 4"));
}

TEST(LayoutTest, CountsAreTriedAroundThoseThatWereGiven) {
  TrainOptions given = ppo(1);
  given.num_envs = 5;
  EXPECT_THAT(described(layouts_of(given, {"num_envs"}, kMachine)),
              ElementsAre("as given", "num_envs 10", "num_envs 20"));
  given.of<rl::PpoOptions>().minibatches = 4;
  EXPECT_THAT(described(layouts_of(given, {"minibatch"}, kMachine)),
              ElementsAre("as given", "ppo.minibatches 2", "ppo.minibatches 8", "ppo.minibatches 16"));
  given.of<rl::PpoOptions>().minibatches.reset();
  given.of<rl::PpoOptions>().minibatch_size = 64;
  EXPECT_THAT(described(layouts_of(given, {"minibatch"}, kMachine)),
              ElementsAre("as given", "ppo.minibatch_size 32", "ppo.minibatch_size 128", "ppo.minibatch_size 256"));
  EXPECT_THAT(described(layouts_of(impala(), {"workers"}, kMachine)),
              ElementsAre("as given", "impala.workers 1", "impala.workers 4"));
}

TEST(LayoutTest, WhatChangesLearningIsMarked) {
  for (const char* word : {"shards", "num_envs", "minibatch"})
    EXPECT_EQ(knob_of(word, ppo(2)).learning, Learning::kOther);
  EXPECT_EQ(knob_of("workers", impala()).learning, Learning::kOther);
  EXPECT_EQ(layouts_of(ppo(2), {"devices", "shards"}, kMachine)[4].learning, Learning::kOther);

  TrainOptions given = ppo(2);
  given.strategy = sync::StrategyKind::kAsynchronous;
  EXPECT_EQ(knob_of("devices", given).learning, Learning::kOther);
  EXPECT_FALSE(knob_of("strategy", given).applies);
  given = ppo(2);
  given.strategy = sync::StrategyKind::kParameterServer;
  EXPECT_EQ(knob_of("strategy", given).learning, Learning::kSameBits);
  given.parameter_server.variables = sync::Variables::kOnCpu;
  EXPECT_EQ(knob_of("strategy", given).learning, Learning::kOther);
  EXPECT_EQ(knob_of("devices", given).learning, Learning::kSameBits);
  given = ppo(2);
  given.rng = Rng::kUnordered;
  EXPECT_EQ(knob_of("devices", given).learning, Learning::kSameButForTiming);
  given = ppo(2);
  given.algo = "dd_ppo";
  EXPECT_EQ(knob_of("devices", given).learning, Learning::kSameBits);
  OptionTable table = option_table(given);
  EXPECT_THAT(table.assign({{"dd_ppo.stragglers", RawValue::of_text("preempt")}}), IsEmpty());
  EXPECT_EQ(knob_of("devices", given).learning, Learning::kSameButForTiming);
}

TEST(LayoutTest, WhatDoesNotApplyAndNothingToTryAreRefusedWithWhatWouldWork) {
  EXPECT_THAT(faults_of(ppo(2), {"workers", "devices", "loaders"}),
              ElementsAre(HasSubstr("--vary workers: a run of ppo"), HasSubstr("--vary loaders")));
  EXPECT_THAT(faults_of(impala(), {"minibatch"}), ElementsAre(HasSubstr("it takes loaders,workers,num_envs")));
  EXPECT_THAT(faults_of(ppo(1), {}), ElementsAre(HasSubstr("the run has 1 shard, and so 1 replica; give --shards 2")));
  TrainOptions inline_run = impala();
  inline_run.of<rl::ImpalaOptions>().execution = rl::ImpalaExecution::kInline;
  EXPECT_THAT(faults_of(inline_run, {}), ElementsAre(HasSubstr("nothing to try in what cannot change learning")));
}

TEST(LayoutTest, ALayoutReplacesFlagsAndTheirRivalsAndKeepsTheShards) {
  ConfigSources sources{.file = "a.yaml"};
  for (const auto& [key, text] : {std::pair{"devices", "cpu:4"}, {"ppo.minibatches", "2"}, {"ppo.gamma", "0.9"}})
    sources.flags.push_back({key, RawValue::of_text(text), {Layer::kFlag, "--set"}});
  const auto flags_with = [&sources](const Layout& layout) {
    std::vector<std::string> texts;
    for (const Setting& flag : with_layout(sources, layout, ppo(4)).flags)
      texts.push_back(flag.key + " " + flag.value.text + " " + flag.origin.place);
    return texts;
  };
  EXPECT_THAT(flags_with({.values = {{"devices", "cpu:2"}, {"ppo.minibatch_size", "64"}}}),
              ElementsAre("ppo.gamma 0.9 --set", "devices cpu:2 tandem tune", "ppo.minibatch_size 64 tandem tune",
                          "shards 4 tandem tune"));
  EXPECT_THAT(flags_with({.values = {{"devices", "cpu:2"}, {"shards", "2"}}}),
              ElementsAre("ppo.minibatches 2 --set", "ppo.gamma 0.9 --set", "devices cpu:2 tandem tune",
                          "shards 2 tandem tune"));
  EXPECT_EQ(with_layout(sources, {}, ppo(4)).file, "a.yaml");
}

}  // namespace
}  // namespace tandem::app
