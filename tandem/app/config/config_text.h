// app/config/config_text.h: options as YAML that reads back as the same options.
//
// Threads: free functions. The text has one option a line and reads back through read_yaml() bit for bit: numbers have
// the fewest digits that give the same double.
#pragma once
#include <string>
#include <string_view>

#include "tandem/app/config/option_table.h"

namespace tandem::app {

/// Every option that a run records (Lifetime kRun and kPart) and that has an effect, in sections, with a comment where
/// it came from. `title` is the first line, as a comment. `recorded`: the earlier such text that the options of
/// Layer::kRecord were read from; a line of it that would be the same again keeps its comment, or that it has none.
[[nodiscard]] std::string config_text(const OptionTable& table, std::string_view title, std::string_view recorded = {});

/// A listing of all options for people: key, what it expects, default, help.
/// Lists options in the order of the table, also those without effect for the chosen algorithm; part of `tandem train
/// --help`.
[[nodiscard]] std::string option_listing(const OptionTable& table);

}  // namespace tandem::app
