// Reading: a text is parsed twice: by events, which count its costs and find a second document safely, and then into
// nodes, which read_section() walks along the table's sections.
// Writing: one option a line, so that lines of an earlier text can be matched by their keys. The fuzz target checks
// that any settings read back as the same.
#include "tandem/app/config/yaml_text.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <system_error>
#include <utility>

#include "tandem/base/atomic_file.h"
#include "tandem/base/budget.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

constexpr std::uint64_t kLargestFile = 1 << 20;  // bytes
constexpr std::size_t kMostSettings = 1000;      // far more than there are options
constexpr Bounds kYamlBounds{.bytes = kLargestFile, .items = 100'000, .depth = 32};

// Takes what a document holds, and nothing of it but its costs: yaml-cpp makes a few hundred bytes of each node.
class Counted final : public YAML::EventHandler {
 public:
  explicit Counted(Budget& budget) : budget_(budget) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override { budget_.take_items(); }
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override { budget_.take_items(); }
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {
    budget_.take_items();
  }
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    begin();
  }
  void OnSequenceEnd() override { budget_.ascend(); }
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    begin();
  }
  void OnMapEnd() override { budget_.ascend(); }

 private:
  void begin() {
    budget_.take_items();
    budget_.descend();
  }

  Budget& budget_;
};

// Counts the costs of the text on the way. YAML::LoadAll() would never end on a comma where a document should begin:
// yaml-cpp 0.7 makes an empty document of it and stays where it is.
bool goes_on_after_a_document(const std::string& text) {
  Budget budget(kYamlBounds);
  budget.take_bytes(text.size());
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Counted counted(budget);
  return parser.HandleNextDocument(counted) && parser.HandleNextDocument(counted);
}

class Reader {
 public:
  Reader(std::string name, Layer layer, const OptionTable& table)
      : name_(std::move(name)), layer_(layer), table_(table) {}

  YamlSettings read(const std::string& text) {
    try {
      if (goes_on_after_a_document(text)) {
        fault("holds more than one YAML document (separated by ---), or a comma at the top; one is read, so leave one");
      } else {
        read_document(YAML::Load(text));
      }
    } catch (const DataError& error) {
      fault(concat(error.what(), ", which no configuration does"));
    } catch (const YAML::Exception& error) {
      result_.faults.push_back(concat(place(error.mark), ", column ", error.mark.column + 1, ": ", error.msg));
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] std::string place(const YAML::Mark& mark) const {
    return mark.is_null() ? name_ : concat(name_, ":", mark.line + 1);
  }

  void fault(const std::string& problem) { result_.faults.push_back(name_ + ": " + problem); }

  void read_document(const YAML::Node& document) {
    if (document.IsNull()) return;  // an empty file sets nothing
    if (document.IsMap()) return read_section(document, "");
    fault("expected `key: value` lines at the top, found " + std::string(document.IsSequence() ? "a list" : "text"));
  }

  void read_section(const YAML::Node& section, const std::string& prefix) {
    for (const auto& entry : section) {
      if (result_.settings.size() >= kMostSettings) {
        return fault(concat("holds more than ", kMostSettings, " settings; this is no configuration of tandem"));
      }
      if (!entry.first.IsScalar()) {
        result_.faults.push_back(place(entry.first.Mark()) + ": a key must be text, found a list or a mapping");
        continue;
      }
      const std::string key = prefix + entry.first.Scalar();
      const bool is_section = table_.is_section(key);
      if (entry.second.IsMap() && is_section) {
        read_section(entry.second, key + ".");
      } else if (!entry.second.IsNull() || !is_section) {  // "ppo:" may have nothing below it
        // A mapping under a key that is no section is kept as kSection, for the table to refuse with the nearest name.
        const Option* option = table_.find(key);
        const bool is_list = option != nullptr && option->is_list();
        RawValue value = is_list && !entry.second.IsScalar() ? list_of(entry.second) : value_of(entry.second);
        result_.settings.push_back({key, std::move(value), {layer_, place(entry.first.Mark())}});
      }
    }
  }

  // Under the key of a list, a mapping is a list of "KEY=VALUE", and so is one in the place of an element.
  static RawValue list_of(const YAML::Node& node) {
    if (node.IsNull()) return {RawValue::Kind::kNull};
    std::vector<std::string> items;
    if (node.IsMap() && !take_pairs(node, items)) return {RawValue::Kind::kSection};
    for (std::size_t i = 0; node.IsSequence() && i < node.size(); ++i) {
      const YAML::Node item = node[i];
      if (item.IsMap() ? !take_pairs(item, items) : !take_text(item, "", items)) return {RawValue::Kind::kSection};
    }
    return RawValue::of_list(std::move(items));
  }
  // False for what is no part of a list.
  static bool take_pairs(const YAML::Node& node, std::vector<std::string>& items) {
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) return false;
      const bool is_alone = entry.second.IsNull();  // "flatten:", with nothing behind it
      if (!take_text(is_alone ? entry.first : entry.second, is_alone ? "" : entry.first.Scalar() + "=", items))
        return false;
    }
    return true;
  }
  static bool take_text(const YAML::Node& node, const std::string& key, std::vector<std::string>& items) {
    if (items.size() >= kMostSettings || !node.IsScalar()) return false;
    items.push_back(key + node.Scalar());
    return true;
  }

  // A list that holds lists or mappings is no value of any option and becomes kSection.
  static RawValue value_of(const YAML::Node& node) {
    if (node.IsScalar()) return RawValue::of_text(node.Scalar());
    if (node.IsNull()) return {RawValue::Kind::kNull};
    if (!node.IsSequence()) return {RawValue::Kind::kSection};
    std::vector<std::string> items;
    for (const YAML::Node& item : node) {
      if (items.size() >= kMostSettings || !item.IsScalar()) return {RawValue::Kind::kSection};  // no list of values
      items.push_back(item.Scalar());
    }
    return RawValue::of_list(std::move(items));
  }

  const std::string name_;
  const Layer layer_;
  const OptionTable& table_;
  YamlSettings result_;
};

// A comment must not end early: places are file names and flags, which could hold a line break.
std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '?');
  return text;
}

constexpr std::size_t kCommentColumn = 44;

// Comments start in one column where the value is short enough.
std::string with_comment(const std::string& line, const std::string& comment) {
  return align_left(line, kCommentColumn) + "  # " + comment;
}

// The lines of a text that config_text() made, by key.
// Knows only the form that config_text() writes: one option a line, sections indented by two spaces.
std::map<std::string, std::string> lines_by_key(std::string_view text) {
  std::map<std::string, std::string> lines;
  std::istringstream in{std::string(text)};
  std::string section;
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || line.front() == '#') continue;
    if (!line.starts_with("  ")) section.clear();
    if (colon + 1 == line.size()) {
      section = line.substr(0, colon) + ".";
    } else {
      lines[section.empty() ? line.substr(0, colon) : section + line.substr(2, colon - 2)] = line;
    }
  }
  return lines;
}

// Where the value of an option that was read from such a text came from at first. `line` is the one of now, without
// a comment; `place` is in the text.
std::string first_place(const std::string& line, const std::string& before, const std::string& place) {
  if (before == line) return "";
  const std::string start = with_comment(line, "");
  return before.starts_with(start) ? before.substr(start.size()) : place;
}

}  // namespace

YamlSettings read_yaml(std::string_view text, const std::string& name, Layer layer, const OptionTable& table) {
  if (text.find('\0') != std::string_view::npos) return {{}, {name + ": holds a zero byte; this is no text"}};
  return Reader(name, layer, table).read(std::string(text));
}

std::string read_text(const std::filesystem::path& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) {
    throw ConfigError(concat(file.string(), " is a folder; name a YAML file"));
  }
  try {
    return read_file(file, kLargestFile);
  } catch (const CheckpointError& error) {
    throw ConfigError(concat("the configuration: ", error.what()));
  }
}

std::string config_text(const OptionTable& table, std::string_view title, std::string_view recorded) {
  const std::map<std::string, std::string> before = lines_by_key(recorded);
  std::string text = "# " + std::string(title) + "\n";
  std::string section;
  for (const auto& option : table.options()) {
    // A resume must not find the folder or the verbosity of an earlier call.
    if (option->lifetime() == Lifetime::kCall) continue;
    if (!table.has_effect(*option)) continue;
    // Writes only the rival that is in force, since both in one file would contradict each other.
    if (option->is_absent() && !table.rivals_of(*option).empty()) continue;
    const std::string& key = option->key();
    const std::size_t dot = key.find('.');
    const std::string last = std::exchange(section, dot == std::string::npos ? "" : key.substr(0, dot));
    // Options of a section follow each other, so each section is opened once.
    if (section != last) text += section + ":\n";
    const std::string line = (section.empty() ? "" : "  ") + key.substr(dot + 1) + ": " + option->text();
    const Origin& origin = option->origin();
    const auto found = origin.layer == Layer::kRecord ? before.find(key) : before.end();
    const std::string place = found == before.end() ? origin.place : first_place(line, found->second, origin.place);
    text += (place.empty() ? line : with_comment(line, one_line(place))) + "\n";
  }
  return text;
}

std::string option_listing(const OptionTable& table) {
  std::string text;
  for (const auto& option : table.options()) {
    text += with_comment("  " + option->key() + ": " + option->default_text(), option->expected());
    text += "\n      " + option->help() + "\n";
  }
  for (const OptionFamily& family : table.families()) text += concat("  ", family.section, ".", family.help, "\n");
  return text;
}

}  // namespace tandem::app
