#include <algorithm>
#include <array>

#include "tandem/base/json_reader.h"
#include "tandem/base/text.h"

namespace tandem {
namespace {

std::string_view kind_of(const JsonValue::Content& content) {
  static constexpr std::array<std::string_view, 8> kKinds{"null",     "a truth value", "an integer", "an integer",
                                                          "a number", "a string",      "an array",   "an object"};
  return kKinds[content.index()];
}

template <typename Kind>
const Kind& expect(const JsonValue::Content& content, std::string_view expected) {
  if (const Kind* held = std::get_if<Kind>(&content)) return *held;
  throw JsonError(concat("expected ", expected, ", found ", kind_of(content)));
}

}  // namespace

bool JsonValue::is_integer() const { return content_.index() == 2 || content_.index() == 3; }

bool JsonValue::is_number() const { return content_.index() >= 2 && content_.index() <= 4; }

bool JsonValue::as_bool() const { return expect<bool>(content_, "a truth value"); }

std::int64_t JsonValue::as_int64() const {
  if (const auto* large = std::get_if<std::uint64_t>(&content_)) {
    throw JsonError(concat("the integer ", *large, " is too large for 63 bits"));
  }
  return expect<std::int64_t>(content_, "an integer");
}

std::uint64_t JsonValue::as_uint64() const {
  if (const auto* large = std::get_if<std::uint64_t>(&content_)) return *large;
  const std::int64_t value = expect<std::int64_t>(content_, "a non-negative integer");
  if (value < 0) throw JsonError(concat("expected a non-negative integer, found ", value));
  return static_cast<std::uint64_t>(value);
}

double JsonValue::as_double() const {
  if (const auto* value = std::get_if<std::int64_t>(&content_)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<std::uint64_t>(&content_)) return static_cast<double>(*value);
  return expect<double>(content_, "a number");
}

const std::string& JsonValue::as_string() const { return expect<std::string>(content_, "a string"); }
const JsonValue::Array& JsonValue::as_array() const { return expect<Array>(content_, "an array"); }
const JsonValue::Object& JsonValue::as_object() const { return expect<Object>(content_, "an object"); }

const JsonValue* JsonValue::find(std::string_view key) const {
  const Object& members = as_object();
  const auto found = std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.first == key; });
  return found == members.end() ? nullptr : &found->second;
}

const JsonValue& JsonValue::at(std::string_view key) const {
  if (const JsonValue* found = find(key)) return *found;
  std::string present;
  for (const auto& [name, value] : as_object()) {
    present += concat(present.empty() ? "" : ", ", name);
    if (present.size() > 200) {
      present += ", ...";
      break;
    }
  }
  throw JsonError(concat("the key '", key, "' is missing; there are: ", present.empty() ? "none" : present));
}

}  // namespace tandem
