// app/config/choices.h: the words by which the values of an enumeration are written.
//
//   template <>
//   struct Choices<Resume> {
//     static constexpr std::array kAll{Choice{Resume::kNever, "never"}, Choice{Resume::kAuto, "auto"}};
//   };
//
// The words stand in help, messages, flags and config.yaml alike. They are compared exactly, with case.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "tandem/base/check.h"

namespace tandem::app {

/// The word must outlive the program's use of it: a literal.
template <typename Enum>
struct Choice {
  Enum value;
  std::string_view word;
};
template <typename Enum>
Choice(Enum, const char*) -> Choice<Enum>;  // clang 14 does not deduce it

/// A type without a specialisation is no field of an option: ValueFormat has no reader for it.
template <typename Enum>
struct Choices;  // to be specialised, as above

template <typename Enum>
concept HasChoices = requires {
  Choices<Enum>::kAll;
};

/// The word of a value.
template <HasChoices Enum>
[[nodiscard]] std::string_view word_of(Enum value) {
  for (const auto& choice : Choices<Enum>::kAll) {
    if (choice.value == value) return choice.word;
  }
  fail_check("value has a word", __FILE__, __LINE__, concat("value ", static_cast<int>(value)));
}

/// Returns nothing when no value has that word.
template <HasChoices Enum>
[[nodiscard]] std::optional<Enum> value_of(std::string_view word) {
  for (const auto& choice : Choices<Enum>::kAll) {
    if (choice.word == word) return choice.value;
  }
  return std::nullopt;
}

/// "never, auto or must".
template <HasChoices Enum>
[[nodiscard]] std::string list_of_choices() {
  std::string text;
  const auto& all = Choices<Enum>::kAll;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i > 0) text += i + 1 == all.size() ? " or " : ", ";
    text += all[i].word;
  }
  return text;
}

}  // namespace tandem::app
