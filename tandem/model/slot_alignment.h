// model/slot_alignment.h: where the next tensor in a flat buffer may begin. Internal.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>

namespace tandem::model {

/// `count` elements rounded up to whole cache lines.
inline std::int64_t aligned(std::int64_t count, c10::ScalarType dtype) {
  constexpr std::int64_t kBytes = 64;
  const auto unit = kBytes / static_cast<std::int64_t>(c10::elementSize(dtype));
  return (count + unit - 1) / unit * unit;
}

}  // namespace tandem::model
