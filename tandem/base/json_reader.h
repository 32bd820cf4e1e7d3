// base/json_reader.h: reads one JSON value (RFC 8259) strictly: no comments, no trailing commas, no duplicate keys,
// valid UTF-8 only, nothing after the value. It is made for manifests, headers and lines of metrics, and is safe on
// hostile bytes: length, number of values and depth are bounded (base/budget.h), and memory and time grow in proportion
// to the text. Why it is no library's: docs/decisions/0047.
//
//   const JsonValue manifest = read_json(text);
//   const std::int64_t step = manifest.at("step").as_int64();
//
// Threads: a JsonValue is immutable. Ownership: it owns everything it holds, and refers to nothing of the text.
// Errors: JsonError. A text that is no JSON gives the byte where reading failed. A value of another form gives the kind
// or the key that was expected and what there is.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tandem/base/budget.h"
#include "tandem/base/error.h"

namespace tandem {

/// Malformed JSON, or JSON of another form than expected. Callers that read a file add its name.
struct JsonError : DataError {
  using DataError::DataError;
};

/// One value of JSON with everything in it.
class JsonValue {
 public:
  using Array = std::vector<JsonValue>;
  using Member = std::pair<std::string, JsonValue>;
  using Object = std::vector<Member>;  // in the order of the text; find() looks at one after the other
  /// An integer that fits is held exactly: as int64, else as uint64. Every other number is a double.
  using Content = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object>;

  JsonValue(Content content) : content_(std::move(content)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::nullptr_t>(content_); }
  [[nodiscard]] bool is_string() const { return std::holds_alternative<std::string>(content_); }
  [[nodiscard]] bool is_array() const { return std::holds_alternative<Array>(content_); }
  [[nodiscard]] bool is_object() const { return std::holds_alternative<Object>(content_); }
  [[nodiscard]] bool is_number() const { return content_.index() >= 2 && content_.index() <= 4; }
  [[nodiscard]] bool is_integer() const { return content_.index() == 2 || content_.index() == 3; }

  /// Each returns the content as the kind that its name says. Throws JsonError for a value of another kind, and for an
  /// integer that does not fit.
  [[nodiscard]] bool as_bool() const;
  [[nodiscard]] std::int64_t as_int64() const;
  [[nodiscard]] std::uint64_t as_uint64() const;
  /// Returns any number; an integer beyond 2^53 is rounded.
  [[nodiscard]] double as_double() const;
  [[nodiscard]] const std::string& as_string() const;
  [[nodiscard]] const Array& as_array() const;
  [[nodiscard]] const Object& as_object() const;

  /// The member `key` of an object. The error for a missing key lists the keys that there are.
  [[nodiscard]] const JsonValue& at(std::string_view key) const;
  /// The member `key` of an object, or null where there is none. Throws JsonError when the value is no object.
  [[nodiscard]] const JsonValue* find(std::string_view key) const;

  friend bool operator==(const JsonValue&, const JsonValue&) = default;

 private:
  Content content_;
};

/// What is read unless the caller says less. The depth matters since reading is recursive; a value takes 40 to 100
/// bytes of memory, and a text may hold one in two bytes.
inline constexpr Bounds kJsonBounds{.bytes = 128 << 20, .items = 4'000'000, .depth = 64};
/// The largest file that read_json_file() reads.
inline constexpr std::uint64_t kLargestJsonFile = 64 << 20;

/// Reads a text that is one JSON value. Throws JsonError, also for one beyond the bounds, which it names.
[[nodiscard]] JsonValue read_json(std::string_view text, const Bounds& bounds = kJsonBounds);
/// Reads a file that is one JSON value. A JsonError then begins with the name of the file. Throws CheckpointError when
/// the file cannot be read, or is larger than kLargestJsonFile.
[[nodiscard]] JsonValue read_json_file(const std::filesystem::path& file);

}  // namespace tandem
