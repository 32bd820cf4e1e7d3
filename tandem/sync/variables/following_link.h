// sync/following_link.h: a replica's link to variables that another process takes over when their owner dies: it finds
// the new owner, says there what the replica knows of its gradients, and goes on.
//
// A gradient that was under way at the death counts as the new owner knows: applied, dropped (by at least a step), or,
// if nobody can know, Verdict::kLost.
//
// Threads, blocking, errors: as VariableLink; PeerLost where the standby has died, too.
#pragma once
#include <memory>

#include "tandem/sync/variables/succession.h"
#include "tandem/sync/variables/variable_link.h"

namespace tandem::sync {

/// Neither is owned, and both outlive the link. To be made while replica 0 owns the variables.
[[nodiscard]] std::unique_ptr<VariableLink> link_that_follows(Succession& succession, Replica& replica,
                                                              const Limits& limits);

}  // namespace tandem::sync
