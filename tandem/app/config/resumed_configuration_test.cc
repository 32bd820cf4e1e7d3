// What a run that goes on takes from its record, and what it may be asked for anew.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tandem/app/testing/configuration_fixture.h"
#include "tandem/app/testing/native_algorithms.h"
#include "tandem/base/testing/message_of.h"

namespace tandem::app {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Where a value came from, as config.yaml says it; empty for a default.
std::string place_of(const std::string& line_start, const std::string& yaml) {
  const std::size_t at = yaml.find("\n" + line_start);
  if (at == std::string::npos) return "no such line";
  const std::string line = yaml.substr(at + 1, yaml.find('\n', at + 1) - at - 1);
  const std::size_t comment = line.find("  # ");
  return comment == std::string::npos ? "" : line.substr(comment + 4);
}

TEST_F(ConfigurationTest, AResumedRunStillSaysWhereItsValuesCameFrom) {
  const std::string first =
      configure("env: Pendulum-v1\nppo:\n  clip_range: 0.25\n", {flag("seed", "3"), flag("total_steps", "9")}).yaml;
  const auto resume = [this](const std::string& yaml, const std::vector<Setting>& flags) {
    write_file(folder / "config.yaml", yaml);
    return reconfigure(folder / "config.yaml", flags, surroundings).yaml;
  };
  const std::string second = resume(resume(first, {}), {flag("total_steps", "7"), flag("devices", "cpu")});
  for (const std::string& yaml : {first, second}) {
    EXPECT_THAT(place_of("env:", yaml), HasSubstr("train.yaml:1"));
    EXPECT_THAT(place_of("  clip_range:", yaml), HasSubstr("train.yaml:3"));
    EXPECT_THAT(place_of("  gamma:", yaml), HasSubstr("shipped settings ppo/Pendulum-v1:"));
    EXPECT_EQ(place_of("seed:", yaml), "--set");
    EXPECT_EQ(place_of("total_steps: " + std::string(yaml == first ? "9" : "7"), yaml), "--set");
    EXPECT_EQ(place_of("  adam_eps:", yaml), "") << "a default";
  }
  EXPECT_EQ(place_of("devices: cpu", first), "");
  EXPECT_EQ(place_of("devices: cpu", second), "--set") << "given anew, though it is the same";
  // A line that somebody wrote into config.yaml came from there.
  std::string edited = second;
  const std::size_t at = edited.find("clip_range: ");
  edited.replace(at, edited.find('\n', at) - at, "clip_range: 0.5  # a guess");
  EXPECT_THAT(place_of("  clip_range: 0.5", resume(edited, {})), HasSubstr("config.yaml:"));
}

TEST_F(ConfigurationTest, GoingOnWithARunAsksForWhatItBeganWith) {
  const std::filesystem::path config = folder / "config.yaml";
  write_file(config, configure("env: CartPole-v1\nseed: 3\ndevices: cpu:2\n").yaml);
  const auto again = [&](std::vector<Setting> flags) {
    flags.push_back(flag("env", "CartPole-v1"));
    return app::configure({{}, std::move(flags), {}, config}, surroundings);
  };
  EXPECT_EQ(again({flag("seed", "3"), flag("devices", "cpu")}).options.shards, 2);
  EXPECT_EQ(again({flag("seed", "3"), flag("total_steps", "9")}).options.total_steps, 9);
  try {
    (void)again({flag("seed", "4"), flag("shards", "1")});
    FAIL() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.faults(), ElementsAre(HasSubstr("seed = 4 (--set): the run began with 3"),
                                            HasSubstr("shards = 1 (--set): the run began with 2")));
  }
}

TEST_F(ConfigurationTest, WhatAResumeMayChangeIsSaidWithWhatItWas) {
  const std::filesystem::path config = folder / "config.yaml";
  write_file(config, configure("env: Mine-v0\nppo.entropy_coef: 0.5\n").yaml);
  const Configuration resumed =
      reconfigure(config, {flag("ppo.learning_rate", "0.1"), flag("ppo.entropy_coef", "0.5"), flag("total_steps", "9")},
                  surroundings);
  EXPECT_EQ(resumed.options.of<rl::PpoOptions>().learning_rate, 0.1);
  EXPECT_THAT(resumed.notes,
              AllOf(Contains("ppo.learning_rate is 0.1 from here on; it was 0.001"),
                    Contains("total_steps is 9 from here on; it was 500000"), Not(Contains(HasSubstr("entropy")))));
  EXPECT_THROW((void)reconfigure(config, {flag("ppo.gamma", "0.9")}, surroundings), ConfigError);
}

TEST_F(ConfigurationTest, OptionsOfACallThatAResumeCannotHonourAreRefusedByIt) {
  const std::filesystem::path config = folder / "config.yaml";
  write_file(config, configure("env: Mine-v0\n").yaml);
  const Configuration shown = reconfigure(config, {flag("quiet", "true"), flag("profile", "true")}, surroundings);
  EXPECT_TRUE(shown.options.quiet && shown.options.profile);
  try {
    (void)reconfigure(config, {flag("run_dir", "runs/b"), flag("resume", "must"), flag("seed", "1")}, surroundings);
    FAIL() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.faults(), ElementsAre(HasSubstr("run_dir = runs/b (--set): has no effect: a resume goes on with"),
                                            HasSubstr("resume = must (--set): has no effect"),
                                            HasSubstr("seed = 1 (--set): belongs to the run from its start")));
  }
}

// The flags of both commands follow the rule, too (app/cli/flags.cc).
TEST_F(ConfigurationTest, WhatMayBeGivenWhereFollowsFromTheLifetime) {
  TrainOptions options;
  const OptionTable table = option_table(options);
  for (const auto& option : table.options()) {
    const bool is_of_call = option->lifetime() == Lifetime::kCall;
    const bool is_shown = option->key() == "quiet", is_measured = option->key() == "profile";
    const bool is_of_part = !is_of_call && option->lifetime() != Lifetime::kRun;
    EXPECT_EQ(may_be_given_at_resume(*option), is_of_part || is_shown || is_measured) << option->key();
    EXPECT_EQ(may_be_given_to_tune(*option), !is_of_call || is_shown) << option->key();
  }
}

// Whoever made the record did not ask this user.
TEST_F(ConfigurationTest, PluginsThatTheRecordAloneNamesAreAskedAboutBeforeAnythingLoadsThem) {
  Surroundings asking = surroundings;
  std::vector<std::string> calls;
  asking.require_own_plugins = [&](const TrainOptions&, const ConfigSources& sources) {
    calls.push_back("asked about " + sources.recorded->filename().string());
    throw ConfigError("not yours");
  };
  asking.sha256_of_plugins = [&](const TrainOptions&) {
    calls.emplace_back("hashed");
    return std::vector<std::string>{"12ab"};
  };
  asking.choose_torso = [&](const TrainOptions&) {
    calls.emplace_back("loaded");
    return rl::Torso::kAuto;
  };
  const std::filesystem::path config = folder / "config.yaml";
  const Configuration begun = app::configure({file("env: Mine-v0\nplugins: [a.so]\n")}, asking);
  EXPECT_THAT(begun.yaml, HasSubstr("plugin_sha256: [12ab]"));
  EXPECT_THAT(std::exchange(calls, {}), ElementsAre("hashed", "loaded")) << "a file that the user names";
  write_file(config, begun.yaml);
  EXPECT_THROW((void)reconfigure(config, {}, asking), ConfigError);
  EXPECT_THAT(std::exchange(calls, {}), ElementsAre("asked about config.yaml"));
  // The run's new plugin is another file than that of the record.
  asking.sha256_of_plugins = [](const TrainOptions&) { return std::vector<std::string>{"34cd"}; };
  const Configuration named = reconfigure(config, {flag("plugins", "b.so")}, asking);
  EXPECT_THAT(calls, ElementsAre("loaded"));
  EXPECT_EQ(named.options.plugin_sha256, std::vector<std::string>{"34cd"});
  EXPECT_THAT(named.notes, Contains(AllOf(HasSubstr("the plugins are others"), HasSubstr("config.yaml"))));
}

TEST_F(ConfigurationTest, RecordedOptionsAreReadWithoutLookingAnythingUp) {
  EXPECT_EQ(read_recorded("env: Missing-v0\ndevices: tpu\nseed: 5\n", "c.yaml").seed, 5);
  EXPECT_THROW((void)read_recorded("sed: 5\n", "c.yaml"), ConfigError);
}

}  // namespace
}  // namespace tandem::app
