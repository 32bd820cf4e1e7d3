// Options as one source alone says them: a user's file and flags before all others are known, or the record of a run.
#include <utility>

#include "tandem/app/config/configuration.h"
#include "tandem/app/config/yaml_text.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {

// Faults are left to configure(), which tells them with those of all other sources.
TrainOptions asked_for(const ConfigSources& sources) {
  TrainOptions options;
  OptionTable table = option_table(options);
  try {
    if (sources.file)
      (void)table.assign(read_yaml(read_text(*sources.file), sources.file->string(), Layer::kFile, table).settings);
  } catch (const ConfigError&) {  // NOLINT(bugprone-empty-catch): left to configure(), as those of assign() are
  }
  (void)table.assign(sources.flags);
  return options;
}

// A record is the program's own, so whatever is wrong with it is an error here.
TrainOptions read_recorded(std::string_view text, const std::string& name) {
  TrainOptions options;
  OptionTable table = option_table(options);
  YamlSettings read = read_yaml(text, name, Layer::kFile, table);
  for (std::string& fault : table.assign(read.settings)) read.faults.push_back(std::move(fault));
  if (read.faults.empty() && options.env.empty()) read.faults.push_back(concat(name, " names no env: it is not whole"));
  if (!read.faults.empty()) throw ConfigError(read.faults);
  return options;
}

TrainOptions read_recorded(const std::filesystem::path& file) { return read_recorded(read_text(file), file.string()); }

}  // namespace tandem::app
