// app/testing/configuration_fixture.h: configurations of files and flags in a folder of their own, without devices or
// environments.
//
// Threads: those of the test.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tandem/app/config/configuration.h"
#include "tandem/base/atomic_file.h"
#include "tandem/base/error.h"
#include "tandem/base/testing/temporary_folder.h"

namespace tandem::app {

// As `tandem resume` makes it.
inline Configuration reconfigure(const std::filesystem::path& recorded, const std::vector<Setting>& flags,
                                 const Surroundings& surroundings) {
  return app::configure({.flags = flags, .recorded = recorded, .is_resume = true}, surroundings);
}

inline int count_replicas(const std::string& devices) {
  if (devices == "cpu") return 1;
  if (devices.starts_with("cpu:")) return std::stoi(devices.substr(4));
  throw ConfigError("no such device");
}

inline void check_env(const TrainOptions& options) {
  if (options.env == "Missing-v0") throw ConfigError("no such environment");
}

class ConfigurationTest : public ::testing::Test {
 protected:
  static Setting flag(std::string key, std::string text) {
    return {std::move(key), RawValue::of_text(std::move(text)), {Layer::kFlag, "--set"}};
  }
  std::filesystem::path file(const std::string& text) {
    const std::filesystem::path path = folder / "train.yaml";
    write_file(path, text);
    return path;
  }
  Configuration configure(const std::string& text, std::vector<Setting> flags = {}) {
    return app::configure({file(text), std::move(flags)}, surroundings);
  }
  std::vector<std::string> faults(const std::string& text, std::vector<Setting> flags = {}) {
    try {
      (void)configure(text, std::move(flags));
    } catch (const ConfigError& error) {
      return error.faults();
    }
    return {};
  }

  TemporaryFolder folder;
  const Surroundings surroundings{count_replicas, {{"env", check_env}}, folder.path()};
};

// The values in one table, as text.
inline std::vector<std::string> recorded(TrainOptions options) {
  std::vector<std::string> texts;
  const OptionTable table = option_table(options);
  for (const auto& option : table.options()) {
    if (option->lifetime() != Lifetime::kCall && table.has_effect(*option)) {
      texts.push_back(option->key() + ": " + option->text());
    }
  }
  return texts;
}

}  // namespace tandem::app
