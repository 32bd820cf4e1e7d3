// sync/parameter_server.h: synchronous data parallelism in which each variable (a whole parameter) is served by one
// replica: that holds its optimizer state, updates it from the mean gradient and gives its new values to all.
//
// As tensorpack's SyncMultiGPUParameterServerBuilder: variables are placed by least load in bytes, on all replicas or
// all on the first one, which across ranks is rank 0's. They lie on their server's device (its ps_device "gpu") or in
// the host's memory (its "cpu"). Unlike there, where a variable lies in one place and is read from there, every replica
// has a copy to compute with, and the gradient's sum reaches all replicas, because the global norm takes the whole of
// it. The same bits as Replicated, but for variables on the CPU of replicas elsewhere: they are updated by the CPU's
// arithmetic. Tables of sparse gradients stay on the devices.
#pragma once
#include "tandem/sync/owner_updates.h"

namespace tandem::sync {

class ParameterServer final : public OwnerUpdates {
 public:
  /// See OwnerUpdates.
  ParameterServer(Replica& replica, comm::Group& group, const ParameterServerOptions& options)
      : OwnerUpdates(replica, group, options.mean,
                     place_by_load(replica.parameters(), options.servers == Servers::kAll ? group.size() : 1)) {
    if (options.variables == Variables::kOnCpu && !replica.placement().device.is_cpu())
      replica.optimizer().keep_at(at::kCPU);
  }
};

}  // namespace tandem::sync
