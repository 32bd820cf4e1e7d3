#include "tandem/sync/strategies.h"

#include "tandem/sync/local/local_steps_strategy.h"
#include "tandem/sync/replicated.h"
#include "tandem/sync/variables/asynchronous.h"
#include "tandem/sync/variables/sync_replicas.h"

namespace tandem::sync {
namespace {

// One function for each alternative of StrategyOptions; make_strategy() picks it by the type of the options.
using Made = std::unique_ptr<Strategy>;

Made make(const ReplicatedOptions& options, Replica& replica, comm::Group& group) {
  return std::make_unique<Replicated>(replica, group, options.mean);
}

Made make(const DividedOptions& options, Replica& replica, comm::Group& group) {
  return std::make_unique<Replicated>(replica, group, options.mean, divide_equally(replica.parameters(), group.size()));
}

// Tables of sparse gradients stay on the device: they have no owner.
Made make(const ParameterServerOptions& options, Replica& replica, comm::Group& group) {
  const int servers = options.servers == Servers::kAll ? group.size() : 1;
  Made made = std::make_unique<Replicated>(replica, group, options.mean, place_by_load(replica.parameters(), servers));
  if (options.variables == Variables::kOnCpu && !replica.placement().device.is_cpu())
    replica.optimizer().keep_at(at::kCPU);
  return made;
}

Made make(const AsynchronousOptions& options, Replica& replica, comm::Group& group) {
  return std::make_unique<Asynchronous>(replica, group, options);
}

Made make(const SyncReplicasOptions& options, Replica& replica, comm::Group& group) {
  return std::make_unique<SyncReplicas>(replica, group, options);
}

Made make(const LocalStepsOptions& options, Replica& replica, comm::Group& group) {
  return std::make_unique<LocalStepsStrategy>(replica, group, options);
}

}  // namespace

Made make_strategy(const StrategyOptions& options, Replica& replica, comm::Group& group) {
  return std::visit([&](const auto& each) { return make(each, replica, group); }, options);
}

}  // namespace tandem::sync
