// rl/env/wrappers/element_types.h: the C++ type of an observation's elements, for code that is the same for all.
//
// This is the only place of the wrappers that lists element types.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "tandem/base/check.h"
#include "tandem/rl/env/spec.h"

namespace tandem::rl {

/// Calls work(Element{}) with the type of the elements, and returns what it returns.
template <typename Work>
decltype(auto) with_element_type(ElementType type, const Work& work) {
  switch (type) {
    case ElementType::kFloat32:
      return work(float{});
    case ElementType::kUInt8:
      return work(std::uint8_t{});
    case ElementType::kInt64:
      return work(std::int64_t{});
    case ElementType::kFloat64:
      return work(double{});
  }
  TANDEM_CHECK(false, static_cast<int>(type));
  return work(float{});  // not reached
}

/// Elements of this type that lie at `memory`.
template <typename Element>
[[nodiscard]] std::span<const Element> elements_at(const std::byte* memory, std::int64_t count) {
  return {reinterpret_cast<const Element*>(memory), static_cast<std::size_t>(count)};
}
template <typename Element>
[[nodiscard]] std::span<Element> elements_at(std::byte* memory, std::int64_t count) {
  return {reinterpret_cast<Element*>(memory), static_cast<std::size_t>(count)};
}

}  // namespace tandem::rl
