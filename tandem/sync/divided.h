// sync/divided.h: synchronous data parallelism with the optimizer's state divided among the replicas: each keeps and
// updates an equal part of every flat buffer.
//
// As stage 1 of ZeRO (Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models").
// For n replicas, Adam's moments take 2/n of the parameters' memory on each, and a step sends (n-1)/n of the
// parameters' bytes more than Replicated. The same bits.
#pragma once
#include "tandem/sync/owner_updates.h"

namespace tandem::sync {

class Divided final : public OwnerUpdates {
 public:
  /// See OwnerUpdates.
  Divided(Replica& replica, comm::Group& group, const DividedOptions& options)
      : OwnerUpdates(replica, group, options.mean, divide_equally(replica.parameters(), group.size())) {}
};

}  // namespace tandem::sync
