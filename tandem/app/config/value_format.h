// app/config/value_format.h: one setting as it was written, in a file, a shipped preset, or on the command line; and
// how values of a type are read from what the user wrote, and written back as YAML.
//
// A setting travels from its source to the option table with its place, so that a fault found late still names file and
// line, or the flag.
//
// ValueFormat<T>::read() gives nothing when the text is no T; write() gives text that a YAML file takes and read()
// understands; kind() says in words what is expected. The values of an enumeration are written as words:
//
//   template <>
//   inline constexpr auto kChoices<Resume> = words_up_to<Resume::kMust>("never", "auto", "must");
//
// The words stand in help, messages, flags and config.yaml alike. They are compared exactly, with case.
//
// Threads: free functions. Reading depends on no locale: decimal points are points. Limits of an option are not checked
// here but in the binding.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/base/check.h"

namespace tandem::app {

/// Sources of settings; a later one wins over an earlier one. kRecord: the config.yaml of a run that goes on. From
/// kFile on somebody asks for the setting now.
/// Comparisons use the order of the values.
enum class Layer { kDefault, kPreset, kRecord, kFile, kFlag };

/// `place` is for people: it stands in messages and in the comments of config.yaml, and nothing is decided by it.
struct Origin {
  Layer layer = Layer::kDefault;
  std::string place = {};  // "train.yaml:12", "--num-envs"; empty for a default
};

/// A value before anything is known about its type.
struct RawValue {
  enum class Kind { kText, kList, kNull, kSection };  // kSection: a YAML mapping, which no option takes
  Kind kind = Kind::kText;
  std::string text = {};                // of kText
  std::vector<std::string> items = {};  // of kList

  [[nodiscard]] static RawValue of_text(std::string text) { return {Kind::kText, std::move(text), {}}; }
  [[nodiscard]] static RawValue of_list(std::vector<std::string> items) { return {Kind::kList, {}, std::move(items)}; }
};

/// The key need not exist: the table finds that out.
struct Setting {
  std::string key;  // dotted: "ppo.learning_rate"
  RawValue value = {};
  Origin origin = {};
};

/// The value for a message: at most some 60 characters of it, control characters escaped.
[[nodiscard]] std::string describe(const RawValue& value);

/// "KEY = VALUE (PLACE): PROBLEM".
[[nodiscard]] std::string describe_fault(const Setting& setting, const std::string& problem);

/// The word must outlive the program's use of it: a literal.
template <typename Enum>
struct Choice {
  Enum value;
  std::string_view word;
};
template <typename Enum>
Choice(Enum, const char*) -> Choice<Enum>;  // clang 14 does not deduce it

/// The words of an enumeration whose values count from 0 to `last`, in the order of the values.
template <auto last>
[[nodiscard]] constexpr auto words_up_to(auto... words) {
  static_assert(sizeof...(words) == static_cast<std::size_t>(last) + 1, "one word for each value");
  int value = 0;
  return std::array{Choice<decltype(last)>{static_cast<decltype(last)>(value++), words}...};
}

/// A type without a specialisation is no field of an option: ValueFormat has no reader for it.
template <typename Enum>
inline constexpr std::nullptr_t kChoices = nullptr;  // to be specialised, as above

template <typename Enum>
concept HasChoices = requires {
  kChoices<Enum>.size();
};

/// The word of a value.
template <HasChoices Enum>
[[nodiscard]] std::string_view word_of(Enum value) {
  const auto found = std::ranges::find(kChoices<Enum>, value, &Choice<Enum>::value);
  TANDEM_CHECK(found != kChoices<Enum>.end(), "no word for value ", static_cast<int>(value));
  return found->word;
}

/// Returns nothing when no value has that word.
template <HasChoices Enum>
[[nodiscard]] std::optional<Enum> value_of(std::string_view word) {
  const auto found = std::ranges::find(kChoices<Enum>, word, &Choice<Enum>::word);
  return found == kChoices<Enum>.end() ? std::nullopt : std::optional(found->value);
}

/// "never, auto or must".
template <typename Word>
[[nodiscard]] std::string list_of_words(const std::vector<Word>& words) {
  std::string text;
  std::size_t left = words.size();
  for (const Word& word : words) {
    text += word;
    if (--left > 0) text += left == 1 ? " or " : ", ";
  }
  return text;
}

template <HasChoices Enum>
[[nodiscard]] std::string list_of_choices() {
  std::vector<std::string_view> words;
  for (const Choice<Enum>& choice : kChoices<Enum>) words.push_back(choice.word);
  return list_of_words(words);
}

/// "300000", "300_000", "3e5": whole numbers within int64.
/// Exponents and points are taken where the value is whole and at most 2^53, up to which a double names one integer.
[[nodiscard]] std::optional<std::int64_t> read_integer(std::string_view text);
/// Finite numbers.
/// Infinity and NaN are refused. Underscores may group digits.
[[nodiscard]] std::optional<double> read_number(std::string_view text);
/// true, on, yes; false, off, no.
[[nodiscard]] std::optional<bool> read_switch(std::string_view text);
/// The fewest digits that read back as the same bits.
/// Plain digits from 1e-4 to below 1e9, where people would write them; else with an exponent.
[[nodiscard]] std::string write_number(double value);
/// As YAML: plain where that reads back as the same text, else in double quotes.
/// Control characters become \x escapes, so that the text is one line.
[[nodiscard]] std::string write_text(std::string_view text);

/// The type of a value for a language that has types of its own: the signatures of the Python package are generated
/// from it (python/generate_stubs.py). Limits and rules between options are not part of it.
enum class ValueType {
  kInteger,
  kNumber,
  kSwitch,  // true or false
  kText,
  kPath,
  kWord,  // one of Option::value_words()
};

/// A type of option fields needs a specialisation, here or beside the type; enumerations have one through Choices.
template <typename T>
struct ValueFormat;

template <>
struct ValueFormat<std::int64_t> {
  static std::optional<std::int64_t> read(const std::string& text) { return read_integer(text); }
  static std::string write(std::int64_t value) { return std::to_string(value); }
  static std::string kind() { return "an integer"; }
};

/// A number beyond 32 bits is no int; it is refused and not cut.
template <>
struct ValueFormat<int> {
  static std::optional<int> read(const std::string& text) {
    const std::optional<std::int64_t> value = read_integer(text);
    if (!value || *value != static_cast<int>(*value)) return std::nullopt;
    return static_cast<int>(*value);
  }
  static std::string write(int value) { return std::to_string(value); }
  static std::string kind() { return "an integer"; }
};

template <>
struct ValueFormat<double> {
  static std::optional<double> read(const std::string& text) { return read_number(text); }
  static std::string write(double value) { return write_number(value); }
  static std::string kind() { return "a number"; }
};

/// Reads all words of read_switch(), and writes true or false.
template <>
struct ValueFormat<bool> {
  static std::optional<bool> read(const std::string& text) { return read_switch(text); }
  static std::string write(bool value) { return value ? "true" : "false"; }
  static std::string kind() { return "true or false"; }
};

/// Takes any text; options that take only some words say so in their binding.
template <>
struct ValueFormat<std::string> {
  static std::optional<std::string> read(const std::string& text) { return text; }
  static std::string write(const std::string& value) { return write_text(value); }
  static std::string kind() { return "text"; }
};

/// Neither an empty text nor one with a zero byte can name a file.
template <>
struct ValueFormat<std::filesystem::path> {
  static std::optional<std::filesystem::path> read(const std::string& text) {
    if (text.empty() || text.find('\0') != std::string::npos) return std::nullopt;
    return text;
  }
  static std::string write(const std::filesystem::path& value) { return write_text(value.string()); }
  static std::string kind() { return "a path"; }
};

/// Takes the words of kChoices<Enum> and no numbers.
template <HasChoices Enum>
struct ValueFormat<Enum> {
  static std::optional<Enum> read(const std::string& text) { return value_of<Enum>(text); }
  static std::string write(Enum value) { return std::string(word_of(value)); }
  static std::string kind() { return list_of_choices<Enum>(); }
};

}  // namespace tandem::app
