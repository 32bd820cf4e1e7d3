// app/config/choices.h: the words by which the values of an enumeration are written.
//
//   template <>
//   inline constexpr std::array kChoices<Resume>{Choice{Resume::kNever, "never"}, Choice{Resume::kAuto, "auto"}};
//
// The words stand in help, messages, flags and config.yaml alike. They are compared exactly, with case.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace tandem::app
