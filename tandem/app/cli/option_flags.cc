#include "tandem/app/cli/option_flags.h"

#include <CLI/CLI.hpp>

#include "tandem/app/config/train_options.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr const char* kSwitchedOn = "true";

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
    if (option->lifetime() == Lifetime::kPart && option->flag().empty())
      keys += (keys.empty() ? "" : ", ") + option->key();
  }
  return "One of these as key=value; may be given several times: " + keys + ".";
}

// A resume may be shown or profiled otherwise than the first part, but cannot move to another folder.
bool is_wanted(const Option& option, FlagSet set) {
  switch (set) {
    case FlagSet::kTrain:
      return true;
    case FlagSet::kResume:
      return option.lifetime() == Lifetime::kPart || option.key() == "quiet" || option.key() == "profile";
    case FlagSet::kTune:
      break;
  }
  return option.lifetime() != Lifetime::kCall || option.key() == "quiet";
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
}

void OptionFlags::add(CLI::App& command, const Option& option, const std::string& takes) {
  // CLI11 keeps the address of `values`, which std::map never moves.
  Given& given = given_.emplace(option.flag(), Given{option.key()}).first->second;
  // A switch, which takes no value; giving it means true.
  if (option.default_text() == "false") {
    command.add_flag_callback(
        option.flag(), [&given] { given.values.emplace_back(kSwitchedOn); }, option.help());
    return;
  }
  command.add_option(option.flag(), given.values, option.help())->type_name(takes)->allow_extra_args(false);
}

std::vector<Setting> OptionFlags::settings(std::vector<std::string>& faults) const {
  std::vector<Setting> settings;
  for (const auto& [flag, given] : given_) {
    // A list grows by an element each time that its flag comes; any other flag may come once, which the table finds.
    if (given.key == "plugins" && !given.values.empty()) {
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

}  // namespace tandem::app
