// The plan, in the order of Assembly's functions: read files and flags into layers of settings; find the presets that
// lie below them, for which algorithm and environment must be known; assign the layers, weakest first; resolve what is
// `auto` or counted per rank; check rules between options, then what needs devices and environments. Faults are
// collected on the way and thrown together at the end, so that a user mends all of them at once.
#include "tandem/app/config/configuration.h"

#include <algorithm>
#include <utility>

#include "tandem/app/config/auto_devices.h"
#include "tandem/app/config/policy_keys.h"
#include "tandem/app/config/presets.h"
#include "tandem/app/config/yaml_text.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

void append(std::vector<std::string>& faults, std::vector<std::string> more) {
  for (std::string& fault : more) faults.push_back(std::move(fault));
}

// What a run began with; one of a family that it was not given is as that of all.
std::string text_in(const OptionTable& was, const std::string& key) {
  const Option* option = was.find(key);
  return option != nullptr ? option->text() : "no value of its own";
}

// A function of Python's is a text (python/tandem/own_env.py) whose bytes differ from process to process. The one that
// is given now counts, as of other code that is named.
void take_own_env(const TrainOptions& now, TrainOptions& before) {
  if (now.env != "gymnasium:tandem.own_env:Own-v0") return;
  const auto is_function = [](const std::string& option) { return option.starts_with("own_env="); };
  const auto its = std::ranges::find_if(now.env_options, is_function);
  const auto then = std::ranges::find_if(before.env_options, is_function);
  if (its != now.env_options.end() && then != before.env_options.end()) *then = *its;
}

// One use each: configure() calls the functions in the order of the plan and ends with finish().
class Assembly {
 public:
  explicit Assembly(const Surroundings& surroundings) : surroundings_(surroundings) {}

  void read_file(const std::filesystem::path& file) { (void)read(file, Layer::kFile, file_); }
  // The config.yaml of a run that goes on.
  void read_record(const std::filesystem::path& file) { record_text_ = read(file, Layer::kRecord, record_); }

  // Relative paths in flags start where the program was started, in files at the file.
  void take_flags(std::vector<Setting> flags) {
    make_absolute(table_, flags, surroundings_.folder);
    flags_ = std::move(flags);
  }
  void take_faults(std::vector<std::string> faults) { append(faults_, std::move(faults)); }

  // Unknown keys pass here, too; assign() reports them.
  void refuse_flags_at_resume() {
    for (const Setting& flag : flags_) {
      const Option* option = table_.find(flag.key);
      const bool is_taken = option != nullptr ? may_be_given_at_resume(*option)
                                              : table_.family_of(flag.key) == nullptr;  // of a family: not made yet
      if (is_taken) continue;
      const bool is_of_call = option != nullptr && option->lifetime() == Lifetime::kCall;
      faults_.push_back(describe_fault(
          flag, is_of_call
                    ? "has no effect: a resume goes on with the run that it names, in that run's folder; leave it out"
                    : "belongs to the run from its start and cannot change when it goes on; start a new run for that"));
    }
  }

  // The environment decides which preset lies below the file and the flags that name it.
  void assign_preset() {
    TrainOptions chosen;
    // A throw-away table: its faults are found again, and reported, when the layers are assigned for good.
    OptionTable chooser = option_table(chosen);
    (void)chooser.assign(file_);
    (void)chooser.assign(flags_);
    const std::string& algo = chosen.algo;
    // The environment's preset comes after the algorithm's, so it wins.
    if (const Preset* defaults = find_preset(algo, kDefaultsOfAlgorithm)) assign_preset(*defaults);
    const Preset* preset = find_preset(algo, chosen.env);
    if (preset != nullptr) {
      assign_preset(*preset);
      notes_.push_back(
          concat("settings shipped for ", chosen.env, " with ", algo, " (`tandem envs ", chosen.env, "` shows them)"));
      return;
    }
    if (chosen.env.empty()) return;
    const Preset* unknown = find_preset(algo, kUnknownEnvironment);
    if (unknown != nullptr) assign_preset(*unknown);
    notes_.push_back(concat("no settings are shipped for ", chosen.env, " with ", algo,
                            unknown == nullptr ? "" : ": those for unknown environments are taken"));
  }

  void assign() {
    for (const auto* layer : {&record_, &file_, &flags_}) append(faults_, table_.assign(*layer));
  }

  // Adds a fault for each setting of Lifetime::kRun that differs from the one that the run began with.
  void compare_with(const std::filesystem::path& recorded) {
    TrainOptions before = read_recorded(recorded);
    take_own_env(options_, before);
    // Values are compared as texts, which are equal just when the values are.
    const OptionTable was = option_table(before);
    resolve_counts_of_rank();
    if (!options_.shards && !table_.at("shards").is_faulty()) options_.shards = before.shards;  // auto was asked for
    if (!options_.instructions && !table_.at("instructions").is_faulty()) options_.instructions = before.instructions;
    if (options_.policy.torso.kind == rl::Torso::kAuto) options_.policy.torso.kind = before.policy.torso.kind;
    if (!options_.normalize.observations) options_.normalize.observations = before.normalize.observations;
    if (!options_.normalize.rewards) options_.normalize.rewards = before.normalize.rewards;
    for (const auto& option : table_.options()) {
      const std::string then = text_in(was, option->key());
      if (option->lifetime() != Lifetime::kRun || option->is_faulty() || option->text() == then) continue;
      faults_.push_back(table_.fault(option->key(), concat("the run began with ", then, " (", recorded.string(),
                                                           "); leave that, or start a new run")));
    }
  }

  // Says what a resume does otherwise from here on.
  void note_changes(const std::filesystem::path& recorded) {
    if (!faults_.empty()) return;
    TrainOptions before = read_recorded(recorded);
    const OptionTable was = option_table(before);
    for (const auto& option : table_.options()) {
      if (option->lifetime() == Lifetime::kRun || option->lifetime() == Lifetime::kCall) continue;
      const std::string then = was.at(option->key()).text();
      if (then == option->text() || !table_.has_effect(*option)) continue;
      notes_.push_back(concat(option->key(), " is ", option->text(), " from here on; it was ", then));
    }
  }

  // A run folder may have come from anybody: nothing is loaded or started because it says so.
  void require_own_code(const ConfigSources& sources) {
    const Option &plugins = table_.at("plugins"), &python = table_.at("python");
    const bool has_plugins = plugins.origin().layer == Layer::kRecord && !plugins.is_faulty();
    const bool has_python = python.origin().layer <= Layer::kRecord && !python.is_faulty();
    try {
      if (has_plugins && surroundings_.require_own_plugins) surroundings_.require_own_plugins(options_, sources);
      if (has_python && surroundings_.require_own_python) surroundings_.require_own_python(options_, sources);
    } catch (const ConfigError& error) {
      append(faults_, error.faults());
      throw ConfigError(faults_);
    }
  }

  Configuration finish(const char* title) {
    resolve_plugins();
    resolve_python();
    resolve_counts_of_rank();
    resolve_devices(options_, table_, surroundings_, {faults_, notes_});
    resolve_shards();
    fit_shipped_counts();
    resolve_instructions();
    resolve_torso();
    resolve_normalizers();
    // Rules are not looked at without the settings of a file that could not be read.
    if (is_read_) append(faults_, rule_faults(options_, table_, replicas_));
    name_environments_of_plugins();
    run_checks();
    if (!faults_.empty()) throw ConfigError(faults_);
    return {options_, config_text(table_, title, record_text_), std::move(notes_)};
  }

 private:
  // Returns the text.
  std::string read(const std::filesystem::path& file, Layer layer, std::vector<Setting>& settings) {
    std::string text;
    try {
      text = read_text(file);
      YamlSettings read = read_yaml(text, file.string(), layer, table_);
      make_absolute(table_, read.settings, surroundings_.folder / file.parent_path());
      append(faults_, std::move(read.faults));
      settings = std::move(read.settings);
    } catch (const ConfigError& error) {
      append(faults_, error.faults());
      is_read_ = false;
    }
    return text;
  }

  void assign_preset(const Preset& preset) {
    YamlSettings read = read_yaml(preset.text, std::string(preset.file), Layer::kPreset, table_);
    append(faults_, std::move(read.faults));
    append(faults_, table_.assign(read.settings));
  }

  void resolve_counts_of_rank() {
    for (const auto& each : table_.options()) {
      const Option& option = *each;
      if (option.total().empty() || option.is_absent() || option.is_faulty() || !table_.has_effect(option)) continue;
      // No overflow: a count is at most kLargestCount.
      const std::int64_t total = *read_integer(option.text()) * surroundings_.ranks;
      const std::string place = concat(option.key(), ": ", option.text(), " on each of ", surroundings_.ranks,
                                       surroundings_.ranks == 1 ? " rank" : " ranks");
      const Origin origin{option.origin().layer, place};
      // The count of a rank is not recorded: its total is, and holds for any number of ranks.
      table_.clear(option.key());
      if (const auto problem = table_.resolve(option.total(), concat(total), origin)) faults_.push_back(*problem);
      notes_.push_back(concat(option.total(), " is ", total, ": ", place));
    }
  }

  // Replicas are counted also when shards were given: rules between options need the number.
  void resolve_shards() {
    try {
      // Throws when a device does not exist; `shards` then stays unresolved.
      replicas_ = surroundings_.count_replicas(options_.devices);
      if (options_.shards) return;
      options_.shards = surroundings_.default_shards ? surroundings_.default_shards(options_.devices) : replicas_;
      notes_.push_back(*options_.shards == replicas_
                           ? concat("shards: auto is ", replicas_, ", one for each replica of ", options_.devices)
                           : concat("shards: auto is ", *options_.shards, ", which ", replicas_,
                                    " replicas on their ranks can share"));
    } catch (const ConfigError& error) {
      of_devices_ = error.faults();
      for (const std::string& fault : of_devices_) faults_.push_back(table_.fault("devices", fault));
    }
  }

  // A user who asks for other rollouts has not asked for the minibatches of shipped settings, so these follow.
  void fit_shipped_counts() {
    for (const FittingCount& fitting : algorithm_of(options_).fitting_counts(options_)) {
      const Option& option = table_.at(fitting.key);
      const std::string was = option.text(), now = concat(fitting.count);
      if (option.origin().layer > Layer::kPreset || option.is_faulty() || was == now) continue;
      const Origin origin{option.origin().layer, concat(option.origin().place, ", fitted")};
      notes_.push_back(concat(fitting.key, " is ", now, ": the ", was, " of ", option.origin().place,
                              " does not go with the counts that were asked for"));
      if (const auto problem = table_.resolve(fitting.key, now, origin)) faults_.push_back(*problem);
    }
  }

  void resolve_instructions() {
    const InstructionSet most = surroundings_.instructions;
    if (options_.instructions && *options_.instructions > most && !table_.at("instructions").is_faulty()) {
      faults_.push_back(table_.fault(
          "instructions",
          concat("the processors of all ranks have ", name_of(most), " at most; instructions: ", name_of(most),
                 " works here, with other last bits: a resume is then recorded as inexact. Begin runs that ",
                 "are to move between machines with the lowest that all have")));
    }
    // The user, or the run's record, has chosen.
    if (options_.instructions) return;
    options_.instructions = most;
    if (most < detect_instruction_set())
      notes_.push_back(concat("instructions: auto is ", name_of(most), ", which the processors of all ranks have"));
  }

  // What is named now counts, and the user hears of it where that is not what a record or a file of his knows.
  void resolve_plugins() {
    if (!surroundings_.sha256_of_plugins) return;
    std::vector<std::string> now = surroundings_.sha256_of_plugins(options_);
    const std::vector<std::string> before = std::exchange(options_.plugin_sha256, now);
    if (!before.empty() && before != now)
      notes_.push_back(concat("the plugins are others than those that ", table_.at("plugin_sha256").origin().place,
                              " recorded (plugin_sha256)"));
  }

  // Such environments live in processes of their own in any case.
  void resolve_python() {
    if (!surroundings_.choose_python || options_.env.empty() || table_.at("python").is_faulty()) return;
    try {
      const auto chosen = surroundings_.choose_python(options_);
      if (!chosen) return refuse_options_of_python();
      if (!options_.python) notes_.push_back(concat("python: auto is ", chosen->string()));
      options_.python = chosen;
      if (table_.at("isolate_envs").origin().layer > Layer::kPreset) return;  // a false is refused by a check
      (void)table_.resolve("isolate_envs", "true", {Layer::kPreset, concat("of ", options_.env)});
    } catch (const ConfigError& error) {
      for (const std::string& fault : error.faults()) faults_.push_back(table_.fault("python", fault));
      has_python_ = false;
    }
  }

  void refuse_options_of_python() {
    for (const char* key : {"python", "env_workers"}) {
      if (!table_.at(key).is_absent())
        faults_.push_back(table_.fault(key, concat("has no effect: ", options_.env, " is not stepped by a Python")));
    }
  }

  // The choice needs the shapes of observations, so the environment is asked.
  void resolve_torso() {
    rl::Torso& torso = options_.policy.torso.kind;
    if (torso != rl::Torso::kAuto || !surroundings_.choose_torso || options_.env.empty()) return;
    try {
      torso = surroundings_.choose_torso(options_);
    } catch (const ConfigError&) {  // left to the checks, which name the key at fault
      return;
    }
    if (torso != rl::Torso::kAuto)
      notes_.push_back(concat("policy.torso: auto is ", word_of(torso), " for the images of ", options_.env));
  }

  // Beside the fault that no environment is named.
  void name_environments_of_plugins() {
    if (!options_.env.empty() || options_.plugins.empty() || !surroundings_.environments_of_plugins) return;
    try {
      faults_.push_back(concat("the plugins bring ", joined(surroundings_.environments_of_plugins(options_))));
    } catch (const ConfigError& error) {
      for (const std::string& fault : error.faults()) faults_.push_back(table_.fault("plugins", fault));
    }
  }

  // The choice needs the types of observations, so the environment is asked.
  void resolve_normalizers() {
    NormalizeSettings& normalize = options_.normalize;
    if (normalize.observations && normalize.rewards) return;
    Surroundings::Normalizable can;
    try {
      if (surroundings_.normalizable && !options_.env.empty()) can = surroundings_.normalizable(options_);
    } catch (const ConfigError&) {  // left to the checks, which name the key at fault
      return;
    }
    const auto resolve = [this](const char* key, std::optional<bool>& value, bool chosen) {
      if (value || table_.at(key).is_faulty()) return;
      value = chosen;
      notes_.push_back(concat(key, ": auto is ", chosen ? "true" : "false", " for ", options_.env));
    };
    resolve("normalize.observations", normalize.observations, can.observations);
    resolve("normalize.rewards", normalize.rewards, can.rewards);
  }

  // Nothing can be said about an environment that is not named or whose plugin does not load.
  void run_checks() {
    if (options_.env.empty() || table_.at("env").is_faulty() || table_.at("plugins").is_faulty()) return;
    if (table_.at("python").is_faulty() || !has_python_) return;
    for (const OptionCheck& check : surroundings_.checks) {
      if (table_.at(check.key).is_faulty()) continue;
      try {
        check.run(options_);
      } catch (const ConfigError& error) {
        for (const std::string& fault : error.faults()) {
          // A check that counts replicas finds again what was wrong with the devices.
          if (std::ranges::find(of_devices_, fault) == of_devices_.end())
            faults_.push_back(table_.fault(check.key, fault));
        }
        // Later checks ask the environment, which is not to be had.
        if (check.key == "env" || check.key == "env_options" || check.key == "env_wrappers") return;
      }
    }
  }

  const Surroundings& surroundings_;
  TrainOptions options_;
  OptionTable table_ = option_table(options_);
  std::string record_text_;
  // from the weakest layer to the strongest
  std::vector<Setting> record_, file_, flags_;
  std::vector<std::string> faults_, notes_;
  std::vector<std::string> of_devices_;  // what is wrong with them, without the key
  bool is_read_ = true;                  // the file and the record
  bool has_python_ = true;               // or needs none
  int replicas_ = 1;
};

}  // namespace

Configuration configure(const ConfigSources& sources, const Surroundings& surroundings) {
  Assembly assembly(surroundings);
  if (sources.recorded) assembly.read_record(*sources.recorded);
  if (sources.file) assembly.read_file(*sources.file);
  assembly.take_flags(sources.flags);
  assembly.take_faults(sources.flag_faults);
  if (sources.is_resume) assembly.refuse_flags_at_resume();
  // A run that goes on has its presets in its record already.
  if (!sources.recorded) assembly.assign_preset();
  assembly.assign();
  if (sources.recorded && !sources.is_resume) assembly.compare_with(*sources.recorded);
  if (sources.recorded) {
    assembly.note_changes(*sources.recorded);
    assembly.require_own_code(sources);
  }
  return assembly.finish(sources.recorded ? "The settings of this run, as resolved when it was last resumed."
                                          : "The settings of this run, as resolved.");
}

std::vector<std::string> changed_since(std::string_view recorded, const TrainOptions& now, const std::string& place,
                                       const std::string& maker) {
  TrainOptions before = read_recorded(recorded, maker), after = now;
  take_own_env(after, before);
  const OptionTable was = option_table(before), is = option_table(after);
  std::vector<std::string> changes;
  for (const auto& option : is.options()) {
    const std::string then = text_in(was, option->key());
    if (option->lifetime() != Lifetime::kRun || !is.has_effect(*option) || option->text() == then) continue;
    changes.push_back(concat(option->key(), " = ", option->text(), " (", place, "): ", maker, " was made with ", then,
                             "; set it back, or start a new run"));
  }
  for (const auto& option : was.options()) {
    if (is.find(option->key()) == nullptr)
      changes.push_back(concat(option->key(), " (", place, "): ", maker, " was made with ", option->text(),
                               "; set it back, or start a new run"));
  }
  return changes;
}

}  // namespace tandem::app
