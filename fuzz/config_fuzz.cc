// Question: can any text, as a configuration file or as --set flags, make the reading of options crash or hang, or be
// taken and then not read back as the same options?
//
// The first byte chooses: even, a YAML file; odd, lines of key=value.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tandem/app/algo/algorithms.h"
#include "tandem/app/config/configuration.h"
#include "tandem/app/config/yaml_text.h"

namespace {

using namespace tandem::app;

std::vector<Setting> settings_of_lines(const std::string& text) {
  std::vector<Setting> settings;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    const std::size_t equals = std::min(line.find('='), line.size());
    settings.push_back({line.substr(0, equals),
                        RawValue::of_text(line.substr(std::min(equals + 1, line.size()))),
                        {Layer::kFlag, "--set"}});
    begin = end + 1;
  }
  return settings;
}

// What was taken without a fault must be written so that it reads back as the same.
void read_back(const OptionTable& table) {
  TrainOptions again;
  OptionTable second = option_table(again);
  const YamlSettings read = read_yaml(config_text(table, "again"), "again", Layer::kFile, second);
  if (!read.faults.empty() || !second.assign(read.settings).empty()) std::abort();
  for (const auto& option : table.options()) {
    const bool is_recorded = option->lifetime() != Lifetime::kCall && table.has_effect(*option);
    if (is_recorded && second.at(option->key()).text() != option->text()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  register_native_algorithms();
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  TrainOptions options;
  OptionTable table = option_table(options);
  std::vector<std::string> faults;
  if (data[0] % 2 == 0) {
    YamlSettings read = read_yaml(text, "fuzz", Layer::kFile, table);
    faults = table.assign(read.settings);
    faults.insert(faults.end(), read.faults.begin(), read.faults.end());
  } else {
    faults = table.assign(settings_of_lines(text));
  }
  (void)rule_faults(options, table, 1);
  if (faults.empty()) read_back(table);
  return 0;
}
