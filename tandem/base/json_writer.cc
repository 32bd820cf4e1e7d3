#include "tandem/base/json_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "tandem/base/check.h"

namespace tandem {
namespace {

// Bytes of UTF-8 sequences pass as they are. RFC 8259, section 7.
bool needs_escape(char c) { return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\'; }

void append_escaped(std::string& text, char c) {
  static constexpr std::string_view kMeanings = "\"\\\n\r\t", kLetters = "\"\\nrt", kHex = "0123456789abcdef";
  if (const std::size_t which = kMeanings.find(c); which != std::string_view::npos) {
    text += {'\\', kLetters[which]};
  } else {
    const auto byte = static_cast<unsigned char>(c);
    text += "\\u00";
    text += {kHex[byte >> 4], kHex[byte & 15]};
  }
}

void append_string(std::string& text, std::string_view content) {
  text += '"';
  while (true) {
    const auto escaped = std::find_if(content.begin(), content.end(), needs_escape);
    text.append(content.begin(), escaped);  // names have nothing to escape, so this is all of most strings
    if (escaped == content.end()) break;
    append_escaped(text, *escaped);
    content = {escaped + 1, content.end()};
  }
  text += '"';
}

}  // namespace

// The innermost open object or array decides whether a value may come, and what may come next.
void JsonWriter::before_value() {
  if (open_.empty()) {
    TANDEM_CHECK(text_.empty(), "a second value after ", text_);
    return;
  }
  Place& place = open_.back();
  TANDEM_CHECK(place != Place::kFirstKey && place != Place::kNextKey, "a value without a key after ", text_);
  if (place == Place::kNextElement) text_ += ',';
  place = place == Place::kAfterKey ? Place::kNextKey : Place::kNextElement;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  TANDEM_CHECK(!open_.empty() && (open_.back() == Place::kFirstKey || open_.back() == Place::kNextKey),
               "a key that is out of place: '", name, "' after ", text_);
  if (open_.back() == Place::kNextKey) text_ += ',';
  append_string(text_, name);
  text_ += ':';
  open_.back() = Place::kAfterKey;
  return *this;
}

JsonWriter& JsonWriter::begin(char bracket, Place first) {
  before_value();
  text_ += bracket;
  // A level that has just been opened may be closed again at once, as an empty object or array.
  open_.push_back(first);
  return *this;
}

JsonWriter& JsonWriter::end(char bracket, Place first, Place next) {
  TANDEM_CHECK(!open_.empty() && (open_.back() == first || open_.back() == next), "'", bracket,
               "' is out of place after ", text_);
  text_ += bracket;
  open_.pop_back();
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  before_value();
  append_string(text_, text);
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) return value(nullptr);
  std::array<char, 32> digits{};
  return write_word({digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr});
}

JsonWriter& JsonWriter::write_word(std::string_view word) {
  before_value();
  text_ += word;
  return *this;
}

// Only a whole value may leave the writer: half an object would be a line that no reader takes.
const std::string& JsonWriter::text() const {
  TANDEM_CHECK(open_.empty() && !text_.empty(), "the value is not finished: ", text_);
  return text_;
}

}  // namespace tandem
