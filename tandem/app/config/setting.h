// app/config/setting.h: one setting as it was written, and where: in a file, a shipped preset, or on the command line.
//
// Plain values.
//
// A setting travels from its source to the option table with its place, so that a fault found late still names file and
// line, or the flag.
#pragma once
#include <string>
#include <vector>

namespace tandem::app {

/// Sources of settings; a later one wins over an earlier one. kRecord: the config.yaml of a run that goes on. From
/// kFile on somebody asks for the setting now.
/// Comparisons use the order of the values.
enum class Layer { kDefault, kPreset, kRecord, kFile, kFlag };

/// `place` is for people: it stands in messages and in the comments of config.yaml, and nothing is decided by it.
struct Origin {
  Layer layer = Layer::kDefault;
  std::string place = {};  // "train.yaml:12", "--num-envs"; empty for a default
};

/// A value before anything is known about its type.
struct RawValue {
  enum class Kind { kText, kList, kNull, kSection };  // kSection: a YAML mapping, which no option takes
  Kind kind = Kind::kText;
  std::string text = {};                // of kText
  std::vector<std::string> items = {};  // of kList

  [[nodiscard]] static RawValue of_text(std::string text) { return {Kind::kText, std::move(text), {}}; }
  [[nodiscard]] static RawValue of_list(std::vector<std::string> items) { return {Kind::kList, {}, std::move(items)}; }
};

/// The key need not exist: the table finds that out.
struct Setting {
  std::string key;  // dotted: "ppo.learning_rate"
  RawValue value = {};
  Origin origin = {};
};

/// The value for a message: at most some 60 characters of it, control characters escaped.
[[nodiscard]] std::string describe(const RawValue& value);

/// "KEY = VALUE (PLACE): PROBLEM".
[[nodiscard]] std::string describe_fault(const Setting& setting, const std::string& problem);

}  // namespace tandem::app
