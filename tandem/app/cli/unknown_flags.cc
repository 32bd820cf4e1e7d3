#include "tandem/app/cli/unknown_flags.h"

#include <algorithm>
#include <optional>

#include "tandem/app/config/algorithm.h"
#include "tandem/app/config/nearest_name.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

// "-" alone is an argument, as many programs use it for standard input.
bool is_flag(const std::string& text) { return text.size() > 1 && text.starts_with('-'); }

// The flags of a command: "--seed", "-o".
std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

// The ways to set options whose keys end with the name of a flag that is not there: "--learning_rate" is that of
// several sections, "--batch-size" is --minibatch-size. Empty where no key does.
std::string set_by(const std::string& flag) {
  std::string word = flag.substr(flag.find_first_not_of('-'));
  std::ranges::replace(word, '-', '_');
  if (word.size() < 4) return "";  // too little to know what is meant
  TrainOptions options;
  const OptionTable table = option_table(options);
  std::vector<std::string> ways;
  for (const auto& option : table.options()) {
    if (!option->key().ends_with(word)) continue;
    ways.push_back(option->flag().empty() ? concat("--set ", option->key(), "=VALUE") : option->flag());
  }
  return joined(ways, {}, " or ");
}

// Answers from the most telling to the least: no flag at all, a flag of train, a key, the nearest flag.
std::string unknown(const std::string& text, const CLI::App& command, const CLI::App& train) {
  const std::string name = text.substr(0, text.find('='));
  if (!is_flag(text)) return concat("tandem ", command.get_name(), " does not take '", text, "'; see its --help");
  const std::vector<std::string> of_train = flags_of(train);
  if (std::find(of_train.begin(), of_train.end(), name) != of_train.end()) {
    return concat(name, ": a flag of tandem train, for a new run; tandem ", command.get_name(),
                  " does not take it, see its --help");
  }
  const bool takes_keys = command.get_option_no_throw("--set") != nullptr;
  if (const std::string ways = takes_keys ? set_by(name) : ""; !ways.empty())
    return concat(name, ": there is no such flag; use ", ways);
  const std::optional<std::string> nearest = nearest_name(name, flags_of(command));
  if (nearest) return concat(name, ": there is no such flag; the nearest one is ", *nearest);
  return concat(name, ": there is no such flag; see tandem ", command.get_name(), " --help",
                takes_keys ? ", or --set for other keys" : "");
}

}  // namespace

// `behind_flag` holds when the text before was a flag without "=", whose value this text probably is.
std::vector<std::string> unknown_faults(const CLI::App& command, const CLI::App& train) {
  std::vector<std::string> faults;
  bool behind_flag = false;
  for (const std::string& text : command.remaining()) {
    if (is_flag(text) || !behind_flag) faults.push_back(unknown(text, command, train));
    behind_flag = is_flag(text) && text.find('=') == std::string::npos;
  }
  return faults;
}

}  // namespace tandem::app
