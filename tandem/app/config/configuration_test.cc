#include "tandem/app/config/configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tandem/app/config/presets.h"
#include "tandem/app/testing/configuration_fixture.h"
#include "tandem/app/testing/native_algorithms.h"
#include "tandem/base/testing/message_of.h"
#include "tandem/rl/env/mujoco/mujoco_envs.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(ConfigurationTest, FlagsWinOverTheFileOverThePresetOverDefaults) {
  const TrainOptions defaults;
  const TrainOptions options =
      configure("env: CartPole-v1\nppo: {gae_lambda: 0.7, epochs: 5}\n", {flag("ppo.epochs", "6")}).options;
  EXPECT_EQ(options.of<rl::PpoOptions>().epochs, 6);
  EXPECT_EQ(options.of<rl::PpoOptions>().gae_lambda, 0.7);
  EXPECT_EQ(options.of<rl::PpoOptions>().gamma, 0.98);
  EXPECT_EQ(options.of<rl::PpoOptions>().value_coef, defaults.of<rl::PpoOptions>().value_coef);
}

TEST_F(ConfigurationTest, TheEnvironmentThatWinsChoosesThePreset) {
  const Configuration configuration = configure("env: CartPole-v1\n", {flag("env", "Pendulum-v1")});
  EXPECT_EQ(configuration.options.of<rl::PpoOptions>().gamma, 0.9);
  EXPECT_EQ(configuration.options.policy.head, "state_dependent_noise");
  EXPECT_THAT(configuration.notes, Contains(HasSubstr("settings shipped for Pendulum-v1 with ppo")));
}

TEST_F(ConfigurationTest, AnEnvironmentWithoutPresetGetsDefaultsAndANote) {
  EXPECT_THAT(configure("env: Mine-v0\n").notes,
              Contains("no settings are shipped for Mine-v0 with ppo: those for unknown environments are taken"));
}

TEST_F(ConfigurationTest, ShippedMinibatchesFollowTheRolloutsThatAreAskedFor) {
  const Configuration small = configure("env: Mine-v0\nnum_envs: 2\nrollout_steps: 10\n");
  EXPECT_EQ(small.options.of<rl::PpoOptions>().minibatch_size, 20);
  EXPECT_THAT(small.notes, Contains("ppo.minibatch_size is 20: the 64 of shipped settings ppo/_unknown:5 does not go "
                                    "with the counts that were asked for"));
  // Every shard has as many rows of a minibatch.
  const Configuration shards = configure("env: Mine-v0\nnum_envs: 6\nrollout_steps: 256\nshards: 3\n");
  EXPECT_EQ(shards.options.of<rl::PpoOptions>().minibatch_size, 48);
  // A run that goes on keeps what it began with.
  EXPECT_EQ(recorded(reconfigure(file(small.yaml), {}, surroundings).options), recorded(small.options));
  EXPECT_THAT(faults("env: Mine-v0\nnum_envs: 2\nrollout_steps: 10\nppo.minibatch_size: 64\n"),
              ElementsAre(HasSubstr("does not divide the 20 rows")));
}

TEST_F(ConfigurationTest, MinibatchSizeReplacesThePresetsMinibatches) {
  const TrainOptions options =
      configure("env: CartPole-v1\nrollout_steps: 64\n", {flag("ppo.minibatches", "2")}).options;
  EXPECT_EQ(options.of<rl::PpoOptions>().minibatches, 2);
  EXPECT_EQ(options.of<rl::PpoOptions>().minibatch_size, std::nullopt);
}

TEST_F(ConfigurationTest, TheResolvedTextReadsBackAsTheSameOptions) {
  const Configuration first = configure(
      "env: Mine-v0\nplugins: [\"./lib mine.so\"]\nppo.clip_range_value: 0.2\ncheckpoint.every_seconds: none\n",
      {flag("devices", "cpu:2"), flag("policy.head", "normal"), flag("policy.hidden", "32,7")});
  const Configuration again = app::configure({file(first.yaml), {}}, surroundings);
  EXPECT_EQ(recorded(again.options), recorded(first.options));
  EXPECT_EQ(recorded(reconfigure(file(first.yaml), {}, surroundings).options), recorded(first.options));
  EXPECT_EQ(again.options.shards, 2);
  EXPECT_EQ(again.options.plugins.at(0), folder / "lib mine.so");
}

// As a shell reads it: a word is looked up in PATH.
TEST_F(ConfigurationTest, AProgramWithASlashLiesWhereTheFileThatNamesItDoes) {
  const auto python_in = [this](const std::string& text, std::vector<Setting> flags = {}) {
    return *configure("env: Mine-v0\n" + text, std::move(flags)).options.python;
  };
  EXPECT_EQ(python_in("python: ./venv/bin/python\n"), folder / "venv/bin/python");
  EXPECT_EQ(python_in("python: python3.12\n"), "python3.12");
  EXPECT_EQ(python_in("", {flag("python", "venv/bin/python")}), surroundings.folder / "venv/bin/python");
}

// A build without MuJoCo's headers has settings of environments that it cannot make.
bool is_missing(const Preset& preset) {
  return rl::mujoco_entries().empty() && std::ranges::count(rl::mujoco_names(), preset.env) > 0;
}

TEST_F(ConfigurationTest, TheResolvedTextOfEveryPresetReadsBack) {
  for (const Preset& preset : presets()) {
    if (preset.env == kDefaultsOfAlgorithm || is_missing(preset)) continue;
    const Configuration first =
        configure("env: " + std::string(preset.env) + "\nalgo: " + std::string(preset.algo) + "\n");
    EXPECT_EQ(recorded(reconfigure(file(first.yaml), {}, surroundings).options), recorded(first.options))
        << preset.file;
  }
}

TEST_F(ConfigurationTest, CountsOfARankBecomeTotalsOfTheRanksThatTheRunStartsOn) {
  Surroundings three = surroundings;
  three.ranks = 3;
  const Configuration first = app::configure({file("env: Mine-v0\nalgo: dd_ppo\n")}, three);
  EXPECT_EQ(first.options.num_envs, 24);
  EXPECT_EQ(first.options.of<rl::PpoOptions>().minibatch_size, 192);
  EXPECT_EQ(first.options.of<rl::PpoOptions>().minibatches, std::nullopt);
  EXPECT_EQ(first.options.rollout_steps, 256);
  EXPECT_EQ(first.options.of<rl::PpoOptions>().epochs, 10);
  EXPECT_THAT(first.yaml, HasSubstr("# dd_ppo.envs_per_rank: 8 on each of 3 ranks"));
  EXPECT_THAT(first.notes, Contains("num_envs is 24: dd_ppo.envs_per_rank: 8 on each of 3 ranks"));
  // It goes on as the same run on one rank.
  EXPECT_EQ(reconfigure(file(first.yaml), {}, surroundings).options.num_envs, 24);
  ConfigSources again{file("env: Mine-v0\nalgo: dd_ppo\n")};
  again.recorded = folder / "recorded.yaml";
  write_file(*again.recorded, first.yaml);
  const Configuration second = app::configure(again, surroundings);
  EXPECT_EQ(second.options.num_envs, 24);
  EXPECT_EQ(second.options.of<rl::PpoOptions>().minibatch_size, 192);
  // What was asked for is not overruled.
  again.flags = {flag("dd_ppo.envs_per_rank", "9")};
  EXPECT_THROW((void)app::configure(again, surroundings), ConfigError);
}

TEST_F(ConfigurationTest, TotalsAndCountsOfARankReplaceEachOther) {
  const TrainOptions totals =
      configure("env: Mine-v0\nalgo: dd_ppo\nnum_envs: 12\n", {flag("ppo.minibatches", "3")}).options;
  EXPECT_EQ(totals.num_envs, 12);
  EXPECT_EQ(totals.of<rl::PpoOptions>().minibatches, 3);
  EXPECT_EQ(totals.of<rl::PpoOptions>().minibatch_size, std::nullopt);
  const TrainOptions of_rank =
      configure("env: Mine-v0\nalgo: dd_ppo\nnum_envs: 12\n", {flag("dd_ppo.envs_per_rank", "2")}).options;
  EXPECT_EQ(of_rank.num_envs, 2);
  EXPECT_THAT(faults("env: Mine-v0\nalgo: dd_ppo\n", {flag("dd_ppo.envs_per_rank", "2"), flag("num_envs", "4")}),
              ElementsAre(HasSubstr("num_envs = 4 (--set): contradicts dd_ppo.envs_per_rank = 2")));
}

TEST_F(ConfigurationTest, AutoShardsAreOneAReplicaAndSaidSo) {
  const Configuration configuration = configure("env: Mine-v0\ndevices: cpu:2\n");
  EXPECT_EQ(configuration.options.shards, 2);
  EXPECT_THAT(configuration.notes, Contains("shards: auto is 2, one for each replica of cpu:2"));
}

TEST_F(ConfigurationTest, AnAutoTorsoIsChosenForImagesSaidAndRecorded) {
  Surroundings images = surroundings;
  images.choose_torso = [](const TrainOptions& options) {
    if (options.env == "Tiny-v0") throw ConfigError("too small");
    return options.env == "Pixels-v0" ? rl::Torso::kResidual : rl::Torso::kAuto;
  };
  images.checks.push_back({"policy.torso", [&images](const TrainOptions& options) { images.choose_torso(options); }});
  const Configuration first = app::configure({file("env: Pixels-v0\npolicy.channels: 8\n")}, images);
  EXPECT_EQ(first.options.policy.torso.kind, rl::Torso::kResidual);
  EXPECT_EQ(first.options.policy.torso.channels, (std::vector<std::int64_t>{8}));
  EXPECT_THAT(first.notes, Contains("policy.torso: auto is residual for the images of Pixels-v0"));
  EXPECT_THAT(first.yaml, HasSubstr("torso: residual"));
  EXPECT_EQ(reconfigure(file(first.yaml), {}, images).options.policy.torso.kind, rl::Torso::kResidual);
  // Asked for again it is what it was.
  ConfigSources again{file("env: Pixels-v0\npolicy.channels: 8\npolicy.torso: auto\n")};
  again.recorded = folder / "recorded.yaml";
  write_file(*again.recorded, first.yaml);
  EXPECT_EQ(app::configure(again, images).options.policy.torso.kind, rl::Torso::kResidual);
  again.flags = {flag("policy.torso", "none")};
  EXPECT_THROW((void)app::configure(again, images), ConfigError);

  const auto refusals = [&](const std::string& text) {
    try {
      (void)app::configure({file(text)}, images);
    } catch (const ConfigError& error) {
      return error.faults();
    }
    return std::vector<std::string>();
  };
  EXPECT_EQ(app::configure({file("env: Mine-v0\n")}, images).options.policy.torso.kind, rl::Torso::kAuto);
  EXPECT_THAT(refusals("env: Mine-v0\npolicy.channels: 8\n"),
              ElementsAre(HasSubstr("has no effect without policy.torso: residual")));
  EXPECT_THAT(refusals("env: Tiny-v0\n"), ElementsAre("policy.torso = auto (the default): too small"));
  EXPECT_THAT(refusals("env: Pixels-v0\npolicy.torso: resnet\n"),
              ElementsAre(HasSubstr("expected auto, none, nature_cnn or residual")));
}

TEST_F(ConfigurationTest, AllFaultsOfAllPlacesAreReportedAtOnce) {
  EXPECT_THAT(faults("env: Missing-v0\nsed: 3\nppo:\n  gamma: 1.5\n  learning_rate: fast\ndevices: tpu:1\n",
                     {flag("num_envs", "0"), flag("ppo.epoch", "3")}),
              ElementsAre(HasSubstr("train.yaml:2): there is no such key; the nearest one is seed"),
                          HasSubstr("ppo.gamma = 1.5"), HasSubstr("ppo.learning_rate = fast"),
                          HasSubstr("num_envs = 0 (--set): expected an integer from 1 to 1000000"),
                          HasSubstr("the nearest one is ppo.epochs"), HasSubstr("train.yaml:6): no such device"),
                          HasSubstr("train.yaml:1): no such environment")));
}

TEST_F(ConfigurationTest, OfAFileThatCannotBeReadNothingElseIsSaid) {
  ConfigSources sources{folder / "nowhere.yaml"};
  EXPECT_THAT(message_of<ConfigError>([&] { (void)app::configure(sources, surroundings); }),
              AllOf(HasSubstr("nowhere.yaml"), Not(HasSubstr("name an environment"))));
}

TEST_F(ConfigurationTest, ASyntaxFaultStillReportsTheFlags) {
  EXPECT_THAT(faults("env: [\n", {flag("seed", "-1")}),
              ElementsAre(HasSubstr("train.yaml:2"), HasSubstr("seed = -1"), HasSubstr("name an environment")));
}

TEST_F(ConfigurationTest, CountsThatDoNotDivideNameCountsThatDo) {
  EXPECT_THAT(faults("env: Mine-v0\nnum_envs: 9\nshards: 2\n"),
              ElementsAre(HasSubstr("does not divide into 2 shards; 8 or 10 would, or shards: 1 or 3")));
  EXPECT_THAT(faults("env: Mine-v0\nnum_envs: 8\nrollout_steps: 100\nppo.minibatches: 7\n"),
              ElementsAre(HasSubstr(
                  "does not divide the 800 rows of a rollout (8 environments x 100 steps, 1 shard); 5 or 8 would")));
  EXPECT_THAT(faults("env: Mine-v0\nnum_envs: 8\nrollout_steps: 128\nshards: 4\nppo.minibatch_size: 100\n"),
              ElementsAre(HasSubstr("64 or 128 would")));
  EXPECT_THAT(faults("env: Mine-v0\nppo.minibatch_size: none\n"), ElementsAre(HasSubstr("give exactly one of")));
  EXPECT_THAT(
      faults("env: Mine-v0\nnum_envs: 2\nrollout_steps: 8\nppo.minibatch_size: 1\n"),
      ElementsAre(AllOf(HasSubstr("ppo.minibatch_size = 1"), HasSubstr("minibatches of 1 row, whose advantage"))));
}

TEST_F(ConfigurationTest, ImpalaSaysWhatDoesNotFitAndWhatItCannotDoSoFar) {
  EXPECT_THAT(faults("env: Mine-v0\nalgo: impala\nnum_envs: 9\nimpala.loaders: 3\nimpala.c_clip: 2\n"),
              ElementsAre(HasSubstr("does not divide among 2 rollout workers; 8 or 10 would"),
                          HasSubstr("is more than the 2 buffers"), HasSubstr("is more than rho_clip, 1")));
  EXPECT_THAT(faults("env: Mine-v0\nalgo: impala\nnum_envs: 8\nimpala.splits: 3\n"),
              ElementsAre(HasSubstr("does not divide the 4 environments that a rollout worker has of a shard (num_envs "
                                    "8 / 2 workers / 1 shard); 2 or 4 would, or num_envs: 6 or 12")));
  EXPECT_THAT(faults("env: Mine-v0\nalgo: appo\nnum_envs: 8\nshards: 4\nimpala.splits: 2\n"),
              ElementsAre(HasSubstr("does not divide the 1 environment that a rollout worker has of a shard (num_envs "
                                    "8 / 2 workers / 4 shards); 1 would, or num_envs: 16")));
  EXPECT_THAT(faults("env: Mine-v0\nalgo: impala\nnum_envs: 8\nimpala.splits: 2\n"), IsEmpty());
  EXPECT_THAT(faults("env: Mine-v0\nalgo: impala\ndevices: cpu:2\nnormalize.observations: true\n"), IsEmpty());
  EXPECT_THAT(faults("env: Mine-v0\nalgo: impala\nnum_envs: 8\nshards: 3\n"),
              ElementsAre(HasSubstr("gives a batch the 4 environments of one rollout worker, which do not divide into "
                                    "3 shards; 6 or 12 would, or shards: 2 or 4")));
  EXPECT_THAT(faults("env: Mine-v0\nalgo: impala\ndevices: cpu:2\nnum_envs: 2\n"),
              ElementsAre(HasSubstr("the 1 environment of one rollout worker, which do not divide into 2 shards; 4 "
                                    "would")));
  EXPECT_THAT(faults("env: Mine-v0\nalgo: appo\ndevices: cpu:2\nstrategy: asynchronous\n"),
              ElementsAre(HasSubstr("all 2 replicas of APPO's learner make each step")));
  EXPECT_THAT(faults("env: Mine-v0\nalgo: appo\nstrategy: asynchronous\n"), IsEmpty());
  EXPECT_THAT(faults("env: Mine-v0\nstrategy: sync_replicas\ngradient_check: each_replica\n"),
              ElementsAre(HasSubstr("sync_replicas looks at each replica's gradient as it is")));
  EXPECT_THAT(faults("env: Mine-v0\nalgo: appo\nimpala.beyond_lag: drop\nimpala.max_policy_lag: none\n"),
              ElementsAre(HasSubstr("has no effect without impala.max_policy_lag")));
  EXPECT_THAT(faults("env: Mine-v0\nalgo: appo\nimpala.compute: bfloat16\nimpala.kernel: off\n"),
              ElementsAre(HasSubstr("impala.kernel is off; use float32")));
  EXPECT_THAT(faults("env: Mine-v0\nalgo: impala\nppo.gamma: 0.9\n"),
              ElementsAre(HasSubstr("train.yaml:3): has no effect without algo: ppo")));
  EXPECT_THAT(faults("env: Mine-v0\nimpala.workers: 1\n"),
              ElementsAre(HasSubstr("has no effect without algo: impala or appo")));
}

TEST_F(ConfigurationTest, AnOptionWithoutEffectIsAFault) {
  EXPECT_THAT(faults("env: Mine-v0\nnormalize.clip_reward: 5\npolicy.sde_sample_freq: 8\n"),
              ElementsAre(HasSubstr("has no effect without policy.head: state_dependent_noise"),
                          HasSubstr("has no effect without normalize.rewards: true")));
  EXPECT_THAT(faults("env: Mine-v0\npolicy.burn_in: 5\n"),
              ElementsAre(HasSubstr("has no effect without policy.recurrent: lstm or gru")));
  EXPECT_THAT(faults("env: Mine-v0\npolicy.recurrent: gru\npolicy.burn_in: 5\n"), IsEmpty());
  EXPECT_THAT(faults("env: Mine-v0\nalgo: impala\npolicy.recurrent: gru\npolicy.burn_in: 5\n"), IsEmpty());
  EXPECT_THAT(faults("env: Mine-v0\nalgo: impala\npolicy.recurrent: gru\npolicy.burn_in: 32\nrollout_steps: 32\n"),
              ElementsAre(HasSubstr("leaves none of a rollout's 32 steps to learn from")));
  // One that a preset set is only left over.
  EXPECT_THAT(faults("env: Pendulum-v1\npolicy.head: normal\n"), IsEmpty());
}

TEST_F(ConfigurationTest, AResumedRunChangesOnlyHowLongAndWhere) {
  const std::filesystem::path config = file(configure("env: CartPole-v1\n").yaml);
  const Configuration longer = reconfigure(config, {flag("total_steps", "7"), flag("devices", "cpu:4")}, surroundings);
  EXPECT_EQ(longer.options.total_steps, 7);
  EXPECT_EQ(longer.options.shards, 1);
  EXPECT_THROW((void)reconfigure(config, {flag("ppo.gamma", "0.5")}, surroundings), ConfigError);
}

// Who serves variables was recorded, and has no effect under another strategy: nobody asks for it there.
TEST_F(ConfigurationTest, AResumedRunMayTakeAnotherStrategy) {
  const Configuration first =
      configure("env: CartPole-v1\nstrategy: parameter_server\nparameter_server: {servers: first, variables: cpu}\n");
  EXPECT_EQ(first.options.parameter_server.servers, sync::Servers::kFirst);
  EXPECT_EQ(first.options.parameter_server.variables, sync::Variables::kOnCpu);
  EXPECT_THAT(first.yaml, HasSubstr("servers: first"));
  const std::filesystem::path config = file(first.yaml);
  const Configuration again = reconfigure(config, {flag("strategy", "divided")}, surroundings);
  EXPECT_EQ(again.options.strategy, sync::StrategyKind::kDivided);
  EXPECT_THAT(again.yaml, AllOf(Not(HasSubstr("servers")), Not(HasSubstr("variables"))));
  EXPECT_EQ(reconfigure(config, {}, surroundings).options.parameter_server.servers, sync::Servers::kFirst);
  EXPECT_THROW(
      (void)reconfigure(config, {flag("strategy", "divided"), flag("parameter_server.servers", "all")}, surroundings),
      ConfigError);
}

TEST_F(ConfigurationTest, FaultsOfTheCommandLineAreReportedWithTheOthers) {
  try {
    (void)app::configure({{}, {flag("env", "Mine-v0"), flag("seed", "-1")}, {"--sed: no such flag"}, {}}, surroundings);
    FAIL() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.faults(), ElementsAre("--sed: no such flag", HasSubstr("seed = -1")));
  }
}

// As runs and checkpoints of earlier builds have them in their texts.
TEST(FormerNamesTest, OptionsAreKnownByThem) {
  const auto flag = [](const char* key, const char* value) {
    return Setting{key, RawValue::of_text(value), {Layer::kFlag, "--set"}};
  };
  const Configuration configuration =
      configure({{},
                 {flag("env", "CartPole-v1"), flag("algo", "dd_ppo"), flag("dd_ppo.survivors", "take_over"),
                  flag("dd_ppo.deadline_seconds", "7")}},
                {count_replicas, {}, "/"});
  EXPECT_EQ(configuration.options.survivors, Survivors::kTakeOver);
  EXPECT_THAT(configuration.yaml, AllOf(HasSubstr("\ndeadline_seconds: 7"), Not(HasSubstr("  survivors:"))));
}

TEST(PresetsTest, EachIsWithoutFaultAndNamesItsOwnEnvironment) {
  EXPECT_FALSE(presets().empty());
  for (const Preset& preset : presets()) {
    if (is_missing(preset)) continue;
    const Setting env{"env", RawValue::of_text(std::string(preset.env)), {Layer::kFlag, "--env"}};
    const Setting algo{"algo", RawValue::of_text(std::string(preset.algo)), {Layer::kFlag, "--algo"}};
    EXPECT_NO_THROW((void)configure({{}, {env, algo}}, {count_replicas, {}, "/"})) << preset.file;
  }
}

TEST_F(ConfigurationTest, PathsInOptionsOfTheEnvironmentAreKeptWhole) {
  const std::string here = folder.path().string();
  const Configuration of_flags =
      configure("env: Mine-v0\n", {flag("env_options", "map=./a/../b.xml,pay=1,from=../c,x=a/b,y")});
  EXPECT_THAT(of_flags.options.env_options,
              ElementsAre("map=" + here + "/b.xml", "pay=1", "from=" + (folder.path().parent_path() / "c").string(),
                          "x=a/b", "y"));
  // Those of a file begin at the file, and those of a record are whole already.
  std::filesystem::create_directory(folder / "settings");
  write_file(folder / "settings/mine.yaml", "env: Mine-v0\nenv_options: {map: ./b.xml, pay: 2}\n");
  const Configuration of_file = app::configure({.file = folder / "settings/mine.yaml"}, surroundings);
  EXPECT_THAT(of_file.options.env_options, ElementsAre("map=" + here + "/settings/b.xml", "pay=2"));
  write_file(folder / "config.yaml", of_file.yaml);
  Surroundings elsewhere = surroundings;
  elsewhere.folder = "/";
  EXPECT_EQ(reconfigure(folder / "config.yaml", {}, elsewhere).options.env_options, of_file.options.env_options);
  // Asking for the same file again is no other run, and for one of the same name it is.
  const ConfigSources again{.flags = {flag("env", "Mine-v0"), flag("env_options", "map=./settings/b.xml,pay=2")},
                            .recorded = folder / "config.yaml"};
  EXPECT_EQ(app::configure(again, surroundings).options.env_options, of_file.options.env_options);
  EXPECT_THROW((void)app::configure(again, elsewhere), ConfigError);
}

}  // namespace
}  // namespace tandem::app
