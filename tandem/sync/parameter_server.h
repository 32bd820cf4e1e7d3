// sync/parameter_server.h: synchronous data parallelism in which each variable (a whole parameter) is served by one
// replica: that holds its optimizer state, updates it from the mean gradient and gives its new values to all.
//
// As tensorpack's SyncMultiGPUParameterServerBuilder: variables are placed by least load in bytes, on all replicas (its
// ps_device "gpu") or all on the first one, which across ranks is rank 0's (its "cpu"). Unlike there, where a variable
// lies in one place and is read from there, every replica has a copy to compute with, and the gradient's sum reaches
// all replicas, because the global norm takes the whole of it. The same bits as Replicated.
#pragma once
#include "tandem/sync/owner_updates.h"
#include "tandem/sync/strategy_kind.h"

namespace tandem::sync {

struct ParameterServerOptions {
  MeanOptions mean{};
  Servers servers = Servers::kAll;
};

class ParameterServer final : public OwnerUpdates {
 public:
  /// See OwnerUpdates.
  ParameterServer(Replica& replica, comm::Group& group, const ParameterServerOptions& options)
      : OwnerUpdates(replica, group, options.mean,
                     place_by_load(replica.parameters(), options.servers == Servers::kAll ? group.size() : 1)) {}
};

}  // namespace tandem::sync
