// base/json_writer.h: writes one JSON value (RFC 8259) piece by piece into a string.
//
//   JsonWriter json;
//   json.begin_object().key("updates").value(12).key("loss").value(0.25).end_object();
//   json.text();  // {"updates":12,"loss":0.25}
//
// Doubles are written with the fewest digits that read back as the same bits, in the form of std::to_chars(): 1, 0.25,
// 1e+21. NaN and infinity, which JSON does not have, become null. Files of a run are compared byte by byte, so this
// form must stay. Strings are taken as UTF-8 and are escaped only where JSON requires it.
//
// Threads: single-thread. Errors: a piece out of order (a value without its key, an object that is not ended) is a
// defect of the caller and throws InvariantError.
#pragma once
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// Each function appends a piece to the text and returns the writer, for the next piece.
class JsonWriter {
 public:
  /// Objects and arrays may nest without a limit. Each end has to match the newest begin that is still open.
  JsonWriter& begin_object() { return begin('{', Place::kFirstKey); }
  JsonWriter& end_object() { return end('}', Place::kFirstKey, Place::kNextKey); }
  JsonWriter& begin_array() { return begin('[', Place::kFirstElement); }
  JsonWriter& end_array() { return end(']', Place::kFirstElement, Place::kNextElement); }
  /// A key is followed by exactly one value; that keys differ from each other is the caller's duty.
  JsonWriter& key(std::string_view name);

  /// A value stands alone, or behind a key, or in an array, where the comma before it is written by the writer.
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(double number);
  JsonWriter& value(bool truth) { return write_word(truth ? "true" : "false"); }
  JsonWriter& value(std::nullptr_t) { return write_word("null"); }
  template <std::integral Number>
  JsonWriter& value(Number number) {
    return write_word(std::to_string(number));
  }

  /// The finished value. Every object and array must have been ended.
  [[nodiscard]] const std::string& text() const;

 private:
  // The piece that may come next within an object or an array.
  enum class Place { kFirstElement, kNextElement, kFirstKey, kNextKey, kAfterKey };

  // The word is written as it is, without quotes.
  JsonWriter& write_word(std::string_view word);
  // begin() opens a level, and end() closes it; `first` and `next` are the places at which an end is allowed.
  JsonWriter& begin(char bracket, Place first);
  JsonWriter& end(char bracket, Place first, Place next);
  // Checks that a value may come here, and writes the comma before it.
  void before_value();

  std::string text_;
  std::vector<Place> open_;  // one entry for each object or array that has not been ended
};

}  // namespace tandem
