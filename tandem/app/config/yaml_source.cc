// A text is parsed twice: by events, which find a second document safely, and then into nodes, which read_section()
// walks along the table's sections. Sizes are bounded before parsing, since files come from users.
#include "tandem/app/config/yaml_source.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::app {
namespace {

// bytes
constexpr std::size_t kLargestFile = 1 << 20;
constexpr std::size_t kMostSettings = 1000;  // far more than there are options

// Takes what a document holds, and nothing of it.
class Ignored final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

// YAML::LoadAll() would never end on a comma where a document should begin: yaml-cpp 0.7 makes an empty document of it
// and stays where it is.
bool goes_on_after_a_document(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Ignored ignored;
  return parser.HandleNextDocument(ignored) && parser.HandleNextDocument(ignored);
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
      if (entry.second.IsMap() && table_.has_section(key)) {
        read_section(entry.second, key + ".");
      } else if (entry.second.IsNull() && table_.has_section(key)) {
        continue;  // "ppo:" with nothing below it
      } else {
        // A mapping under a key that is no section is kept as kSection, for the table to refuse with the nearest name.
        result_.settings.push_back({key, value_of(entry.second), {layer_, place(entry.first.Mark())}});
      }
    }
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
  std::ifstream in(file, std::ios::binary);
  if (!in)
    throw ConfigError(
        concat("cannot read the configuration ", file.string(), ": ", std::generic_category().message(errno)));
  // One byte more than is allowed tells a file that is too large, also where its size cannot be asked, as of a pipe.
  std::string text(kLargestFile + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (in.bad())
    throw ConfigError(
        concat("cannot read the configuration ", file.string(), ": ", std::generic_category().message(errno)));
  if (text.size() > kLargestFile) {
    throw ConfigError(concat(file.string(), " is larger than ", kLargestFile, " bytes; this is no configuration"));
  }
  return text;
}

YamlSettings read_yaml_file(const std::filesystem::path& file, const OptionTable& table) {
  return read_yaml(read_text(file), file.string(), Layer::kFile, table);
}

}  // namespace tandem::app
