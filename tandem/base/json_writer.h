// base/json_writer.h: writes one JSON value (RFC 8259) piece by piece into a string.
//
//   JsonWriter json;
//   json.begin_object().key("updates").value(12).key("loss").value(0.25).end_object();
//   json.text();  // {"updates":12,"loss":0.25}
//
// Threads: single-thread. Doubles are written with the fewest digits that read back as the same bits; NaN and infinity,
// which JSON does not have, become null. Strings are taken as UTF-8 and only escaped where JSON requires it.
// Pieces out of order (a value without its key, an unclosed object) are defects: InvariantError.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

class JsonWriter {
 public:
  JsonWriter& begin_object() { return begin('{', Place::kFirstKey); }
  JsonWriter& end_object() { return end('}', Place::kFirstKey, Place::kNextKey); }
  JsonWriter& begin_array() { return begin('[', Place::kFirstElement); }
  JsonWriter& end_array() { return end(']', Place::kFirstElement, Place::kNextElement); }
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(double number);
  JsonWriter& value(bool truth) { return write_word(truth ? "true" : "false"); }
  JsonWriter& value(std::nullptr_t) { return write_word("null"); }
  template <std::integral Number>
  JsonWriter& value(Number number) {
    if constexpr (std::is_signed_v<Number>) return signed_value(number);
    return unsigned_value(static_cast<std::uint64_t>(number));
  }

  /// The finished value. Everything that was begun must have been ended.
  [[nodiscard]] const std::string& text() const;

 private:
  enum class Place { kFirstElement, kNextElement, kFirstKey, kNextKey, kAfterKey };

  JsonWriter& signed_value(std::int64_t number);
  JsonWriter& unsigned_value(std::uint64_t number);
  template <typename Number>
  JsonWriter& write_number(Number number);
  JsonWriter& write_word(std::string_view word);
  JsonWriter& begin(char bracket, Place first);
  JsonWriter& end(char bracket, Place first, Place next);
  void before_value();

  std::string text_;
  std::vector<Place> open_;  // one entry for each object or array that has not been ended
};

}  // namespace tandem
