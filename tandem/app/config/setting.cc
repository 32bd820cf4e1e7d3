#include "tandem/app/config/setting.h"

#include "tandem/base/text.h"

namespace tandem::app {
namespace {

// characters, beyond which a value in a message is cut
constexpr std::size_t kMostShown = 60;

// Control characters of a file must not reach the terminal.
std::string printable(const std::string& text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (shown.size() >= kMostShown && (byte & 0xC0) != 0x80) return shown + "...";  // not within a UTF-8 character
    if (byte < 0x20 || byte == 0x7F) {
      shown += concat("\\x", kHex[byte >> 4], kHex[byte & 15]);
    } else {
      shown += c;
    }
  }
  return shown;
}

// Whole items are shown until the limit is passed.
std::string list(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) {
    if (text.size() > kMostShown) return "[" + text + ", ...]";
    text += (text.empty() ? "" : ", ") + printable(item);
  }
  return "[" + text + "]";
}

}  // namespace

std::string describe(const RawValue& value) {
  switch (value.kind) {
    case RawValue::Kind::kNull:
      return "null";
    case RawValue::Kind::kSection:
      return "{...}";
    case RawValue::Kind::kList:
      return list(value.items);
    case RawValue::Kind::kText:
      break;
  }
  return value.text.empty() ? "\"\"" : printable(value.text);
}

std::string describe_fault(const Setting& setting, const std::string& problem) {
  const std::string place = setting.origin.place.empty() ? "" : " (" + setting.origin.place + ")";
  return printable(setting.key) + " = " + describe(setting.value) + place + ": " + problem;
}

}  // namespace tandem::app
