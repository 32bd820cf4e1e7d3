// comm/census.h: which of the sides that a run may have come apart into goes on.
//
// Threads: all.
#pragma once

namespace tandem::comm {

/// What a side sees of the ranks that the run had.
struct Census {
  int members = 0;        // that the run had until now
  int here = 0;           // on this side
  int dead = 0;           // known to have ended: they are on no side
  bool has_first = true;  // whether the first of those that are not dead is on this side
};

/// Whether this side goes on: it has more than half of the ranks that may still live, or half of them and the first.
/// Of two sides that see the same ranks dead at most one does.
[[nodiscard]] constexpr bool prevails(const Census& census) {
  const int elsewhere = census.members - census.dead - census.here;
  return census.here > elsewhere || (census.here == elsewhere && census.here > 0 && census.has_first);
}

}  // namespace tandem::comm
