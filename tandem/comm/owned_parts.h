// comm/owned_parts.h: a flat tensor in parts, each of which one member of a group has the values of.
//
// Plain values and copies; nothing here waits for anybody. Threads: any, for tensors of their own.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::comm {

/// Elements begin .. end-1, which lie at the member `owner`.
struct OwnedPart {
  int owner = 0;
  std::int64_t begin = 0, end = 0;
  [[nodiscard]] std::int64_t size() const { return end - begin; }
  friend bool operator==(const OwnedPart&, const OwnedPart&) = default;
};

/// The same without empty parts, and neighbours with one owner as one part.
[[nodiscard]] std::vector<OwnedPart> joined(std::span<const OwnedPart> parts);

/// Elements of all parts of `owner`.
[[nodiscard]] std::int64_t elements_of(std::span<const OwnedPart> parts, int owner);

/// The elements of all parts of `owner` one after the other: a view into `flat` where that is possible.
[[nodiscard]] at::Tensor packed(const at::Tensor& flat, std::span<const OwnedPart> parts, int owner);
/// Writes what packed() gave back to its places. What lies there already is left alone.
void unpack(const at::Tensor& elements, const at::Tensor& flat, std::span<const OwnedPart> parts, int owner);

}  // namespace tandem::comm
