#include "tandem/app/cli/flags.h"

#include <CLI/CLI.hpp>

#include "tandem/app/config/train_options.h"
#include "tandem/app/config/yaml_text.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

// All keys follow it.
constexpr const char* kTrainFooter = R"(Example:
  tandem train --env CartPole-v1 --seed 1 --devices cpu:2 --run-dir runs/pole
  tandem train --algo dd_ppo --env CartPole-v1 --ranks 2
  tandem train mine.yaml --set ppo.learning_rate=1e-3 --set policy.hidden=128,128

What is set where: defaults < the algorithm's own (dd_ppo) < the settings shipped for the environment < CONFIG < flags.
Counts (environments, rows, steps) are totals of the run, whatever the devices, unless they are called "per rank".

Signals, to any rank: SIGINT (Ctrl-C), SIGTERM, SIGHUP (a lost terminal; not under nohup) and SIGUSR2 end the run after
its update, with a checkpoint; SIGUSR1 does too and has Slurm queue the job again (sbatch --signal=USR1@90; scontrol
requeue $SLURM_JOB_ID). Exit code 130 then, and 0 when all steps were made. Ctrl-C after another signal ends the process
at once.

Keys for CONFIG, in sections or dotted, and for --set, with their defaults:
)";

// The default, in the place of a type: it shows what the flag takes.
std::string takes(const Option& option) {
  const std::string& value = option.default_text();
  return value == "\"\"" || value == "[]" ? "" : "[" + value + "]";
}

// At a resume the run's own values stay, so there are no defaults to show.
std::string keys_of_set(const OptionTable& table, FlagSet set) {
  if (set == FlagSet::kTrain) return "Any key of the list below, as key=value; may be given several times.";
  if (set == FlagSet::kTune) return "Any key that tandem train --help lists, as key=value; may be given several times.";
  std::string keys;
  for (const auto& option : table.options()) {
    if (may_be_given_at_resume(*option) && option->flag().empty()) keys += (keys.empty() ? "" : ", ") + option->key();
  }
  return "One of these as key=value; may be given several times: " + keys + ".";
}

bool is_wanted(const Option& option, FlagSet set) {
  if (set == FlagSet::kResume) return may_be_given_at_resume(option);
  return set == FlagSet::kTrain || may_be_given_to_tune(option);
}

}  // namespace

OptionFlags::OptionFlags(CLI::App& command, FlagSet set) {
  // A table of its own, only for keys, help and defaults; the settings are assigned to another one later.
  TrainOptions defaults;
  const OptionTable table = option_table(defaults);
  for (const auto& option : table.options()) {
    if (!option->flag().empty() && is_wanted(*option, set))
      add(command, *option, set == FlagSet::kResume ? "" : takes(*option));
  }
  command.add_option("--set", sets_, keys_of_set(table, set))->type_name("KEY=VALUE")->allow_extra_args(false);
  if (set == FlagSet::kTrain) command.footer(kTrainFooter + option_listing(table));
}

void OptionFlags::add(CLI::App& command, const Option& option, const std::string& takes) {
  // CLI11 keeps the address of `values`, which std::map never moves.
  Given& given = given_.emplace(option.flag(), Given{option.key()}).first->second;
  // A switch, which takes no value; giving it means true.
  if (option.default_text() == "false") {
    command.add_flag_callback(
        option.flag(), [&given] { given.values.emplace_back("true"); }, option.help());
    return;
  }
  command.add_option(option.flag(), given.values, option.help())->type_name(takes)->allow_extra_args(false);
}

std::vector<Setting> OptionFlags::settings(std::vector<std::string>& faults) const {
  std::vector<Setting> settings;
  for (const auto& [flag, given] : given_) {
    // A list grows by an element each time that its flag comes; any other flag may come once, which the table finds.
    const bool is_grown = given.key == "plugins" || given.key == "env_options" || given.key == "env_wrappers";
    if (is_grown && !given.values.empty()) {
      settings.push_back({given.key, RawValue::of_list(given.values), {Layer::kFlag, flag}});
      continue;
    }
    for (const std::string& value : given.values) {
      settings.push_back({given.key, RawValue::of_text(value), {Layer::kFlag, flag}});
    }
  }
  for (const std::string& text : sets_) {
    // The value may hold further signs "=".
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      faults.push_back(
          concat("--set ", describe(RawValue::of_text(text)), ": expected key=value, as in --set ppo.gamma=0.98"));
      continue;
    }
    settings.push_back({text.substr(0, equals), RawValue::of_text(text.substr(equals + 1)), {Layer::kFlag, "--set"}});
  }
  return settings;
}

Option& FieldFlags::add(CLI::App& command, const std::string& flag, const char* takes, std::unique_ptr<Option> option) {
  Flag& added = flags_.emplace_back(Flag{std::move(option)});
  command.add_option(flag, added.text, added.option->help())->type_name(takes);
  return *added.option;
}

void FieldFlags::assign(std::vector<std::string>& faults) {
  for (const Flag& flag : flags_) {
    if (flag.text.empty()) continue;
    const auto problem = flag.option->assign({flag.option->key(), RawValue::of_text(flag.text)});
    if (problem) faults.push_back(fault(flag.option->key(), *problem));
  }
}

std::string FieldFlags::text(const std::string& flag) const {
  for (const Flag& each : flags_) {
    if (each.option->key() == flag && !each.text.empty()) return each.text;
  }
  return "";
}

std::string FieldFlags::fault(const std::string& flag, const std::string& problem) const {
  return concat(flag, " ", describe(RawValue::of_text(text(flag))), ": ", problem);
}

}  // namespace tandem::app
