// rl/policy/names.h: the names of an enumeration's values, as configurations and messages have them.
//
//   constexpr Names<2> kTrunks{"separate", "shared"};     // in the order of the enumeration
//
// Threads: free functions on values.
#pragma once
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {

/// The names, in the order of the enumeration, whose values count from 0.
template <std::size_t kCount>
using Names = std::array<const char*, kCount>;

/// The name of `value`, which must be one of the enumeration's.
template <typename Enum, std::size_t kCount>
[[nodiscard]] constexpr const char* name_in(const Names<kCount>& names, Enum value) {
  return names.at(static_cast<std::size_t>(value));
}

/// The value of that name. Throws ConfigError listing the names when `name` is none of them: "'x' is no KIND; ...".
template <typename Enum, std::size_t kCount>
[[nodiscard]] Enum value_in(const Names<kCount>& names, std::string_view name, const char* kind) {
  for (std::size_t i = 0; i < kCount; ++i) {
    if (name == names[i]) return static_cast<Enum>(i);
  }
  throw ConfigError(concat("'", name, "' is no ", kind, "; known are: ", joined(names)));
}

}  // namespace tandem::rl
