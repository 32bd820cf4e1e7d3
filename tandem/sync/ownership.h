// sync/ownership.h: which member of a group updates which elements of the flat parameters.
//
// A plan is made from the parameters' layout alone, so all members make the same one. Sparse buffers have no owner:
// every member updates them, from gradients that all have.
//
// Plain values. Threads: any.
#pragma once
#include <vector>

#include "tandem/comm/owned_parts.h"
#include "tandem/model/flat_parameters.h"
#include "tandem/model/optimizer.h"

namespace tandem::sync {

/// By flat buffer: its elements in ascending order and without gaps, the owners of all; nothing for a sparse buffer.
using Ownership = std::vector<std::vector<comm::OwnedPart>>;

/// Every member owns an equal part of each buffer, whatever parameters lie there. Parts end at multiples of 64 bytes,
/// as the optimizer asks, so a buffer of a few elements has fewer owners. This is stage 1 of ZeRO (Rajbhandari et al.
/// 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models"): for n members, Adam's moments take
/// 2/n of the parameters' memory on each, and a step sends (n-1)/n of the parameters' bytes more than without owners.
[[nodiscard]] Ownership divide_equally(const model::FlatParameters& parameters, int members);

/// Every parameter has one owner among members 0 .. servers-1: the largest comes first, and each goes to the member
/// with the fewest bytes so far (of those the lowest). As tensorpack's SyncMultiGPUParameterServerBuilder places its
/// variables; unlike there, where a variable lies in one place and is read from there, every replica has a copy to
/// compute with.
[[nodiscard]] Ownership place_by_load(const model::FlatParameters& parameters, int servers);

/// The elements that `member` owns, by buffer.
[[nodiscard]] std::vector<std::vector<model::Elements>> elements_of(const Ownership& ownership, int member);

}  // namespace tandem::sync
