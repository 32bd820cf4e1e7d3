#include "tandem/base/json_reader.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "tandem/base/atomic_file.h"
#include "tandem/base/text.h"

namespace tandem {
namespace {

std::string_view kind_of(const JsonValue::Content& content) {
  static constexpr std::array<std::string_view, 8> kKinds{"null",     "a truth value", "an integer", "an integer",
                                                          "a number", "a string",      "an array",   "an object"};
  return kKinds[content.index()];
}

// Returns the content as a Kind. Throws JsonError that says `expected` and what there is.
template <typename Kind>
const Kind& expect(const JsonValue::Content& content, std::string_view expected) {
  if (const Kind* held = std::get_if<Kind>(&content)) return *held;
  throw JsonError(concat("expected ", expected, ", found ", kind_of(content)));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Appends the character with this code point, which is not half of a surrogate pair.
void append_utf8(std::string& text, unsigned code) {
  const auto put = [&](unsigned value) { text += static_cast<char>(value); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6), put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 0x3F)), put(0x80 | (code >> 6 & 0x3F)), put(0x80 | (code & 0x3F));
  }
}

// A recursive descent over the text, a function for each rule of the grammar. `at_` is the next byte to read. A
// function leaves it behind what it has read, or at the byte that is wrong when it throws, so fail() can name the
// place.
class Reader {
 public:
  Reader(std::string_view text, const Bounds& bounds)
      : text_(text), budget_(bounds, [this](const std::string& why) { refuse(why); }) {}

  JsonValue document() {
    budget_.take_bytes(text_.size());
    JsonValue value = element();
    skip_space();
    if (at_ != text_.size()) fail("nothing more");
    return value;
  }

 private:
  // Throws JsonError for the byte at at_, which is none of the `expected`.
  [[noreturn]] void fail(std::string_view expected) const {
    std::string found = "the end";
    if (at_ < text_.size()) {
      const auto c = static_cast<unsigned char>(text_[at_]);
      found = c >= 0x20 && c < 0x7F ? concat("'", text_[at_], "'") : concat("byte ", static_cast<int>(c));
    }
    throw JsonError(
        concat("malformed JSON at byte ", at_, " of ", text_.size(), ": expected ", expected, ", found ", found));
  }

  // Throws JsonError for a text that costs more than is allowed.
  [[noreturn]] void refuse(const std::string& why) const {
    throw JsonError(concat("JSON that is not read: at byte ", at_, " of ", text_.size(), ", ", why));
  }

  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  // JSON knows these four kinds of white space only.
  void skip_space() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++at_;
  }

  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  // The first byte of a value decides which rule it follows; anything that begins no other rule has to be a number.
  JsonValue element() {
    budget_.take_items();
    skip_space();
    switch (peek()) {
      case '{':
        return object();
      case '[':
        return array();
      case '"':
        return JsonValue(string());
      case 't':
        return word("true", true);
      case 'f':
        return word("false", false);
      case 'n':
        return word("null", nullptr);
      default:
        return number();
    }
  }

  JsonValue word(std::string_view letters, JsonValue::Content content) {
    if (text_.substr(at_, letters.size()) != letters) fail(letters);
    at_ += letters.size();
    return JsonValue(std::move(content));
  }

  // The descent uses the thread's stack, so a text of ten thousand brackets must not end the process.
  JsonValue array() {
    const Budget::Level level = budget_.enter();
    ++at_;
    JsonValue::Array elements;
    skip_space();
    if (take(']')) return JsonValue(std::move(elements));
    // A comma has to be followed by another element, so a trailing comma is an error.
    do {
      elements.push_back(element());
      skip_space();
    } while (take(','));
    if (!take(']')) fail("',' or ']'");
    return JsonValue(std::move(elements));
  }

  JsonValue object() {
    const Budget::Level level = budget_.enter();
    ++at_;
    JsonValue::Object members;
    skip_space();
    if (take('}')) return JsonValue(std::move(members));
    do {
      skip_space();
      if (peek() != '"') fail("a key in quotes");
      std::string key = string();
      skip_space();
      if (!take(':')) fail("':'");
      members.emplace_back(std::move(key), element());
      skip_space();
    } while (take(','));
    if (!take('}')) fail("',' or '}'");
    check_duplicates(members);
    return JsonValue(std::move(members));
  }

  // Sorted views of the keys find a key that comes twice in n log n steps, so an object of many keys cannot stall the
  // reader.
  void check_duplicates(const JsonValue::Object& members) const {
    std::vector<std::string_view> keys;
    for (const auto& [key, value] : members) keys.push_back(key);
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) {
      throw JsonError(
          concat("malformed JSON: the object that ends at byte ", at_, " has the key '", *twice, "' twice"));
    }
  }

  std::string string() {
    ++at_;
    std::string content;
    while (!take('"')) {
      const char c = peek();
      if (at_ == text_.size() || static_cast<unsigned char>(c) < 0x20) fail("a character of a string or '\"'");
      if (c == '\\') {
        ++at_;
        escape(content);
        continue;
      }
      const std::size_t length = utf8_length(text_.substr(at_));
      if (length == 0) fail("UTF-8");
      content.append(text_, at_, length);
      at_ += length;
    }
    return content;
  }

  void escape(std::string& content) {
    static constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    if (take('u')) return append_utf8(content, code_point());
    const std::size_t which = at_ < text_.size() ? kLetters.find(text_[at_]) : std::string_view::npos;
    if (which == std::string_view::npos) fail("one of \"\\/bfnrtu after '\\'");
    ++at_;
    content += kMeanings[which];
  }

  // Reads what follows \u. A character beyond U+FFFF is written as two escapes, a surrogate pair.
  unsigned code_point() {
    const unsigned first = four_digits();
    if (first < 0xD800 || first > 0xDFFF) return first;
    if (first > 0xDBFF || !take('\\') || !take('u')) fail("the first half of a surrogate pair, then the second");
    const unsigned second = four_digits();
    if (second < 0xDC00 || second > 0xDFFF) fail("the second half of a surrogate pair");
    return 0x10000 + ((first & 0x3FF) << 10) + (second & 0x3FF);
  }

  unsigned four_digits() {
    const std::string_view digits = text_.substr(at_, 4);
    unsigned code = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() < 4 || result.ptr != digits.data() + 4) fail("four hexadecimal digits");
    at_ += 4;
    return code;
  }

  void digits() {
    if (!is_digit(peek())) fail("a digit");
    while (is_digit(peek())) ++at_;
  }

  // Checks the grammar first, since std::from_chars() accepts more than JSON does, and then converts. An integer that
  // fits stays exact; any other number is the nearest double.
  JsonValue number() {
    const std::size_t begin = at_;
    const bool negative = take('-');
    if (!is_digit(peek())) fail(negative ? "a digit" : "a value");
    if (!take('0')) digits();
    bool whole = true;
    if (take('.')) {
      whole = false;
      digits();
    }
    if (take('e') || take('E')) {
      whole = false;
      if (!take('+')) take('-');
      digits();
    }
    const std::string_view literal = text_.substr(begin, at_ - begin);
    if (whole && literal != "-0") {  // minus zero is a double: an integer would lose its sign
      if (const auto exact = parse_number<std::int64_t>(literal)) return JsonValue(*exact);
      if (const auto exact = parse_number<std::uint64_t>(literal)) return JsonValue(*exact);
    }
    if (const auto rounded = parse_number<double>(literal)) return JsonValue(*rounded);
    at_ = begin;
    fail("a number that a double can hold");
  }

  std::string_view text_;
  Budget budget_;
  std::size_t at_ = 0;
};

}  // namespace

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

JsonValue read_json(std::string_view text, const Bounds& bounds) { return Reader(text, bounds).document(); }

JsonValue read_json_file(const std::filesystem::path& file) {
  const std::string text = read_file(file, kLargestJsonFile);
  try {
    return read_json(text);
  } catch (const JsonError& error) {
    throw JsonError(concat(file.string(), ": ", error.what()));
  }
}

}  // namespace tandem
