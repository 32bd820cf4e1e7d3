#include "tandem/base/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>

#include "tandem/base/check.h"

namespace tandem {
namespace {

template <typename Number>
void append_number(std::string& text, Number number) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  text.append(digits.data(), end);
}

void append_escaped(std::string& text, char c) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  switch (c) {
    case '"':
      text += "\\\"";
      break;
    case '\\':
      text += "\\\\";
      break;
    case '\n':
      text += "\\n";
      break;
    case '\r':
      text += "\\r";
      break;
    case '\t':
      text += "\\t";
      break;
    default:
      if (static_cast<unsigned char>(c) < 0x20) {
        text += "\\u00";
        text += kHex[static_cast<unsigned char>(c) >> 4];
        text += kHex[static_cast<unsigned char>(c) & 15];
      } else {
        text += c;
      }
  }
}

void append_string(std::string& text, std::string_view content) {
  text += '"';
  for (const char c : content) append_escaped(text, c);
  text += '"';
}

}  // namespace

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

JsonWriter& JsonWriter::begin_object() {
  before_value();
  text_ += '{';
  open_.push_back(Place::kFirstKey);
  return *this;
}

JsonWriter& JsonWriter::begin_array() {
  before_value();
  text_ += '[';
  open_.push_back(Place::kFirstElement);
  return *this;
}

void JsonWriter::end(char bracket, Place first, Place next) {
  TANDEM_CHECK(!open_.empty() && (open_.back() == first || open_.back() == next), "'", bracket,
               "' is out of place after ", text_);
  text_ += bracket;
  open_.pop_back();
}

JsonWriter& JsonWriter::end_object() {
  end('}', Place::kFirstKey, Place::kNextKey);
  return *this;
}

JsonWriter& JsonWriter::end_array() {
  end(']', Place::kFirstElement, Place::kNextElement);
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  before_value();
  append_string(text_, text);
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) return value(nullptr);
  before_value();
  append_number(text_, number);
  return *this;
}

JsonWriter& JsonWriter::value(bool truth) {
  before_value();
  text_ += truth ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::value(std::nullptr_t) {
  before_value();
  text_ += "null";
  return *this;
}

JsonWriter& JsonWriter::signed_value(std::int64_t number) {
  before_value();
  append_number(text_, number);
  return *this;
}

JsonWriter& JsonWriter::unsigned_value(std::uint64_t number) {
  before_value();
  append_number(text_, number);
  return *this;
}

const std::string& JsonWriter::text() const {
  TANDEM_CHECK(open_.empty() && !text_.empty(), "the value is not finished: ", text_);
  return text_;
}

}  // namespace tandem
