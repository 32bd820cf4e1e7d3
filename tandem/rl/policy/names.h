// rl/policy/names.h: the names of an enumeration's values, which are listed in its order.
#pragma once
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::rl {

template <std::size_t kCount>
using Names = std::array<const char*, kCount>;

template <typename Enum, std::size_t kCount>
[[nodiscard]] constexpr const char* name_in(const Names<kCount>& names, Enum value) {
  return names.at(static_cast<std::size_t>(value));
}

/// Throws ConfigError listing the names when `name` is none of them. `kind`: "activation", for the message.
template <typename Enum, std::size_t kCount>
[[nodiscard]] Enum value_in(const Names<kCount>& names, std::string_view name, const char* kind) {
  std::string known;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (name == names[i]) return static_cast<Enum>(i);
    known += concat(known.empty() ? "" : ", ", names[i]);
  }
  throw ConfigError(concat("'", name, "' is no ", kind, "; known are: ", known));
}

}  // namespace tandem::rl
