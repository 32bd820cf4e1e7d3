// comm/owned_parts.h: a flat tensor divided into parts. Each part has an owner, the member of a group that has its
// values; Group::share_parts() copies them to the others.
//
// Threads: any, each for tensors of its own. Nothing here waits for other members.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::comm {

/// Elements begin .. end - 1 of a flat tensor, whose values the member of rank `owner` has.
struct OwnedPart {
  int owner = 0;
  std::int64_t begin = 0, end = 0;
  [[nodiscard]] std::int64_t size() const { return end - begin; }
  friend bool operator==(const OwnedPart&, const OwnedPart&) = default;
};

/// Returns the parts without the empty ones; adjacent parts of one owner become one part.
[[nodiscard]] std::vector<OwnedPart> merged(std::span<const OwnedPart> parts);

[[nodiscard]] std::int64_t elements_of(std::span<const OwnedPart> parts, int owner);

/// The elements of all parts of `owner`, one after the other: a view into `flat` where they lie in one piece, otherwise
/// a copy.
[[nodiscard]] at::Tensor packed(const at::Tensor& flat, std::span<const OwnedPart> parts, int owner);
/// Copies the elements that packed() returned to their places in `flat`. A view into these places is not copied.
void unpack(const at::Tensor& elements, const at::Tensor& flat, std::span<const OwnedPart> parts, int owner);

}  // namespace tandem::comm
