// comm/store/replacement.h: whether a launcher can start a dead rank again alone, or has to start all of them.
//
// Ranks that have introduced themselves to each other (world.h) know the process that died, and a new one in its place
// meets nobody: not while they meet, and not while they train, unless they go on without those that die.
//
// Threads, blocking, errors: as Store.
#pragma once
#include "tandem/base/text.h"
#include "tandem/comm/store/obituary.h"
#include "tandem/comm/store/rendezvous.h"
#include "tandem/comm/store/store.h"

namespace tandem::comm {

inline constexpr const char* kTheyGoOn = "the others go on";

/// From now on the ranks of this world go on without those that die. `words`: the part of that name of the world.
inline void say_they_go_on(Store& words) { words.set(kTheyGoOn, "1"); }

/// Whether the others can go on when `rank` is started again alone: it had not come to them yet, or they go on without
/// those that die. `world`: run_part() of the world's generation; `meeting`: rendezvous_part().
[[nodiscard]] inline bool can_be_replaced(Store& world, Store& meeting, int rank) {
  return !world.find(concat(kIntroduction, "/", rank)) || Rendezvous::has_begun(meeting) ||
         world.part("words")->find(kTheyGoOn);
}

}  // namespace tandem::comm
