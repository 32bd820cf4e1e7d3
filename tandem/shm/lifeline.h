// shm/lifeline.h: by which the other ranks of a host see that a rank is gone, and call it: a pair of connected sockets.
//
// When the end that all others hold hangs up, the rank has died, or has hung up itself. (A child that it forks without
// exec would hold its own end too, and hide the death.) A byte that is written there is a call.
//
// Threads: any.
#pragma once
#include "tandem/base/descriptor.h"

namespace tandem::shm {

struct Lifeline {
  Descriptor own, others;
};

[[nodiscard]] Lifeline make_lifeline();

/// Calls the rank at the other end. One that is gone, or has not answered many calls, is not called.
void call(const Descriptor& others);
/// Takes all calls that have come. False when nobody is left to call: whoever called is gone, too.
[[nodiscard]] bool take_calls(const Descriptor& own);
/// As if the rank died.
void hang_up(const Descriptor& own);

}  // namespace tandem::shm
