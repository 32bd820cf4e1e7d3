// app/config/value_format.h: how values of a type are read from what the user wrote, and written back as YAML.
//
// ValueFormat<T>::read() gives nothing when the text is no T; write() gives text that a YAML file takes and read()
// understands; kind() says in words what is expected.
//
// Threads: free functions. Reading depends on no locale: decimal points are points. Limits of an option are not checked
// here but in the binding.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/app/config/choices.h"
#include "tandem/app/config/setting.h"

namespace tandem::app {

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
