// app/config/configuration.h: the options of a run, from all the places that they can be given.
//
// defaults < the settings shipped for the environment, or what the run that goes on has recorded < the configuration
// file < flags
//
// Threads: free functions. Errors: ConfigError with every fault that was found, each naming key, value, place, and
// what would work.
//
// Nothing is written and no run folder is locked here; files are read, and Surroundings may load plugins and count
// devices.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/app/config/algorithm.h"
#include "tandem/app/config/train_options.h"
#include "tandem/base/cpu.h"

namespace tandem::app {

/// The command line's share of a configuration, before anything is read or looked up.
struct ConfigSources {
  std::optional<std::filesystem::path> file = {};
  std::vector<Setting> flags = {};
  std::vector<std::string> flag_faults = {};  // found when the command line was read; reported with the others
  /// The config.yaml of the run that these options are to go on with: what is not asked for is as it says. Shipped
  /// settings, which may have changed since, do not matter. Asking for other options of Lifetime kRun than it began
  /// with is a fault.
  std::optional<std::filesystem::path> recorded = {};
  /// `tandem resume`: flags name options that may_be_given_at_resume(); any other is a fault, also one of kRun that
  /// repeats the recorded value.
  bool is_resume = false;
};

/// The world around a configuration: devices, environments, ranks.
/// Functions in place of values keep app/config free of devices and environments: tests give fakes, and the program
/// asks the machine (app/commands/run_session.h).
struct Surroundings {
  /// Replicas that a device set makes. Throws ConfigError.
  /// Must be given; so must `folder` where paths are relative. All functions may be called several times.
  std::function<int(const std::string& devices)> count_replicas;
  /// Checks run in this order; those behind one of "plugins" or "env" that fails are left out.
  /// Each throws ConfigError, which becomes a fault of its key.
  std::vector<OptionCheck> checks = {};
  /// Where relative paths start; for those in a file, the file's folder.
  /// Absolute for the program, so that recorded paths hold from any folder.
  std::filesystem::path folder;
  /// Returns the value of `shards: auto`. Not given: one shard for each replica.
  /// Called only when `shards` is not given.
  std::function<std::int64_t(const std::string& devices)> default_shards = {};
  /// Replicas of this rank that `devices: cpu:auto` makes where all ranks share `shards`. Not given: 1.
  std::function<int(std::int64_t shards)> replicas_here = {};
  int ranks = 1;  // that the run starts on
  /// The value of `instructions: auto`: the most that the processors of all ranks have.
  InstructionSet instructions = detect_instruction_set();
  /// Returns the value of `policy.torso: auto`; kAuto where there is nothing to choose. Throws ConfigError. Not given:
  /// kAuto.
  std::function<rl::Torso(const TrainOptions&)> choose_torso = {};
  /// Throws ConfigError unless the plugins, which the record of a run alone names, may be loaded unasked. Called before
  /// any function here that loads plugins. Not given: they may.
  std::function<void(const TrainOptions&, const ConfigSources&)> require_own_plugins = {};
  /// Returns the value of `python: auto`, or the one that is set as a whole path; nothing where the environment needs
  /// no Python. Throws ConfigError. Not given: nothing.
  std::function<std::optional<std::filesystem::path>(const TrainOptions&)> choose_python = {};
  /// As require_own_plugins, of an environment in Python that the record alone names.
  std::function<void(const TrainOptions&, const ConfigSources&)> require_own_python = {};
  /// Returns the value of `plugin_sha256`. Not given: it stays as it is.
  std::function<std::vector<std::string>(const TrainOptions&)> sha256_of_plugins = {};
  /// The names of the environments that the options' plugins bring, for a user who named none. Throws ConfigError. Not
  /// given: nothing is said.
  std::function<std::vector<std::string>(const TrainOptions&)> environments_of_plugins = {};
  /// Returns the values of `normalize.observations: auto` and `normalize.rewards: auto`. Throws ConfigError. Not given:
  /// false.
  struct Normalizable {
    bool observations = false, rewards = false;
  };
  std::function<Normalizable(const TrainOptions&)> normalizable = {};
};

/// The result: options that keep every rule, with `auto` resolved where the machine or the environment decides it.
struct Configuration {
  /// Free of faults; `shards` and `instructions` hold values.
  TrainOptions options;
  /// Written into a new run folder, and into one that goes on when something was asked for.
  std::string yaml;                     // all recorded options, with where they came from: config.yaml of the run
  std::vector<std::string> notes = {};  // what `auto` became, and which shipped settings were taken
};

/// Returns the settings of file and flags before anything is resolved: they name the run, and whether to go on with it.
/// Faults are left out, for configure() to report.
[[nodiscard]] TrainOptions asked_for(const ConfigSources& sources);

/// Faults of options that are fine one by one but not together, by the algorithm's rules and the program's.
/// Empty when all options go together. Stops at no fault, but rules about faulty keys are skipped.
[[nodiscard]] std::vector<std::string> rule_faults(const TrainOptions& options, const OptionTable& table, int replicas);

/// The configuration of a new run, or of one that goes on. `shards: auto` becomes the number of replicas; with
/// `devices: cpu:auto` a number that the machine has no say in, and the replicas follow it. Reads file and record,
/// applies the layers, then checks rules and surroundings. Throws ConfigError with all faults of all layers at once.
[[nodiscard]] Configuration configure(const ConfigSources& sources, const Surroundings& surroundings);

/// In what `now` is another run than the one whose config.yaml was `recorded`: options of Lifetime kRun, a sentence
/// each. `place`: where `now` is from, `maker`: what `recorded` made, for the sentences.
[[nodiscard]] std::vector<std::string> changed_since(std::string_view recorded, const TrainOptions& now,
                                                     const std::string& place, const std::string& maker);

/// The options that a config.yaml of a run records, from its text; `name` for messages. Nothing is looked up: neither
/// environment nor devices need exist here.
/// Throws ConfigError when a line is at fault or no environment is named.
[[nodiscard]] TrainOptions read_recorded(std::string_view text, const std::string& name);
/// Reads the file first; throws ConfigError when it cannot be read.
[[nodiscard]] TrainOptions read_recorded(const std::filesystem::path& file);

}  // namespace tandem::app
