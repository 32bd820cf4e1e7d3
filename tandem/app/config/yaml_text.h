// app/config/yaml_text.h: a YAML file as a list of settings, and options as YAML that reads back as the same options.
//
// Sections may be nested or dotted: "ppo: {gamma: 0.9}" and "ppo.gamma: 0.9" are the same. Only the sections of the
// table are entered, so the work is bounded by the text, whatever anchors and aliases it holds.
//
// config_text() writes one option a line, which reads back bit for bit: numbers have the fewest digits that give the
// same double.
//
// Threads: free functions. Errors of the text are faults with line and column, and settings before the fault may be
// missing; nothing from yaml-cpp is thrown on.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/app/config/option_table.h"
#include "tandem/app/config/value_format.h"

namespace tandem::app {

/// Settings come in the order of the text, keys dotted, whether or not the table has such a key.
struct YamlSettings {
  std::vector<Setting> settings = {};
  std::vector<std::string> faults = {};  // of the text itself: syntax, no mapping at the top, several documents
};

/// `name` is how messages call the text: "train.yaml:3".
/// Values stay texts: the option that takes one decides its type. More than 1000 settings are a fault, and so are more
/// than 1 MiB, 100,000 values, or 32 levels of nesting.
[[nodiscard]] YamlSettings read_yaml(std::string_view text, const std::string& name, Layer layer,
                                     const OptionTable& table);

/// The text of a configuration file. Throws ConfigError when it cannot be read or is too large to be one.
/// The limit is 1 MiB. A folder, a pipe and a device are refused, too.
[[nodiscard]] std::string read_text(const std::filesystem::path& file);

/// Every option that a run records (Lifetime kRun and kPart) and that has an effect, in sections, with a comment where
/// it came from. `title` is the first line, as a comment. `recorded`: the earlier such text that the options of
/// Layer::kRecord were read from; a line of it that would be the same again keeps its comment, or that it has none.
[[nodiscard]] std::string config_text(const OptionTable& table, std::string_view title, std::string_view recorded = {});

/// A listing of all options for people: key, what it expects, default, help.
/// Lists options in the order of the table, also those without effect for the chosen algorithm; part of `tandem train
/// --help`.
[[nodiscard]] std::string option_listing(const OptionTable& table);

}  // namespace tandem::app
