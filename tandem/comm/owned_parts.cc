#include "tandem/comm/owned_parts.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "tandem/base/check.h"

namespace tandem::comm {
namespace {

at::Tensor part_of(const at::Tensor& flat, const OwnedPart& part) { return flat.narrow(0, part.begin, part.size()); }

}  // namespace

std::vector<OwnedPart> merged(std::span<const OwnedPart> parts) {
  std::vector<OwnedPart> few;
  for (const OwnedPart& part : parts) {
    if (part.size() == 0) continue;
    if (!few.empty() && few.back().owner == part.owner && few.back().end == part.begin) {
      few.back().end = part.end;
    } else {
      few.push_back(part);
    }
  }
  return few;
}

std::int64_t elements_of(std::span<const OwnedPart> parts, int owner) {
  std::int64_t count = 0;
  for (const OwnedPart& part : parts) count += part.owner == owner ? part.size() : 0;
  return count;
}

// One piece is returned as a view, so that a group can send from it, or receive into it, without a copy.
at::Tensor packed(const at::Tensor& flat, std::span<const OwnedPart> parts, int owner) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> pieces;
  for (const OwnedPart& part : parts) {
    if (part.owner == owner && part.size() > 0) pieces.push_back(part_of(flat, part));
  }
  if (pieces.empty()) return flat.narrow(0, 0, 0);
  return pieces.size() == 1 ? pieces.front() : at::cat(pieces);
}

void unpack(const at::Tensor& elements, const at::Tensor& flat, std::span<const OwnedPart> parts, int owner) {
  const at::NoGradGuard no_grad;
  TANDEM_CHECK(elements.numel() == elements_of(parts, owner), "member ", owner, " has ", elements_of(parts, owner),
               " elements and gave ", elements.numel());
  std::int64_t at = 0;
  for (const OwnedPart& part : parts) {
    if (part.owner != owner || part.size() == 0) continue;
    const at::Tensor to = part_of(flat, part), from = elements.narrow(0, at, part.size());
    if (to.const_data_ptr() != from.const_data_ptr()) to.copy_(from);  // equal: packed() returned a view
    at += part.size();
  }
}

}  // namespace tandem::comm
