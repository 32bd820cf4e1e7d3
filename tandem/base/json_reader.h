// base/json_reader.h: reads one JSON value (RFC 8259) strictly: no comments, no trailing commas, no duplicate keys,
// valid UTF-8 only, nothing after the value. Made for manifests and headers: small, and safe on hostile bytes.
//
//   const JsonValue manifest = read_json(text);
//   const std::int64_t step = manifest.at("step").as_int64();
//
// Threads: a JsonValue is immutable. It owns everything it holds.
// Errors: JsonError, with the byte where reading failed, or with the kind or key that was expected and what is there.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tandem/base/error.h"

namespace tandem {

/// Malformed JSON, or JSON of another form than expected. Callers that read a file add its name.
class JsonError : public DataError {
 public:
  using DataError::DataError;
};

class JsonValue {
 public:
  using Array = std::vector<JsonValue>;
  using Member = std::pair<std::string, JsonValue>;
  using Object = std::vector<Member>;  // in the order of the text
  /// An integer that fits is held exactly: as int64, else as uint64. Every other number is a double.
  using Content = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object>;

  JsonValue(Content content) : content_(std::move(content)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::nullptr_t>(content_); }
  [[nodiscard]] bool is_string() const { return std::holds_alternative<std::string>(content_); }
  [[nodiscard]] bool is_array() const { return std::holds_alternative<Array>(content_); }
  [[nodiscard]] bool is_object() const { return std::holds_alternative<Object>(content_); }
  [[nodiscard]] bool is_number() const;
  [[nodiscard]] bool is_integer() const;

  [[nodiscard]] bool as_bool() const;
  [[nodiscard]] std::int64_t as_int64() const;
  [[nodiscard]] std::uint64_t as_uint64() const;
  /// Any number; one beyond 2^53 is rounded.
  [[nodiscard]] double as_double() const;
  [[nodiscard]] const std::string& as_string() const;
  [[nodiscard]] const Array& as_array() const;
  [[nodiscard]] const Object& as_object() const;

  /// The member `key` of an object. The error for one that is missing lists those that are there.
  [[nodiscard]] const JsonValue& at(std::string_view key) const;
  /// The member `key` of an object, or null where there is none.
  [[nodiscard]] const JsonValue* find(std::string_view key) const;

  friend bool operator==(const JsonValue&, const JsonValue&) = default;

 private:
  Content content_;
};

/// Nesting of arrays and objects that is read; deeper text is refused, since it is read by recursion.
inline constexpr int kMostJsonDepth = 64;

[[nodiscard]] JsonValue read_json(std::string_view text);
/// The same of a file, whose name the error then has. CheckpointError when it cannot be read.
[[nodiscard]] JsonValue read_json_file(const std::filesystem::path& file);

}  // namespace tandem
