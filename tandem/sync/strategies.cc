#include "tandem/sync/strategies.h"

namespace tandem::sync {
namespace {

std::unique_ptr<Strategy> make(const ReplicatedOptions& options, Replica& replica, comm::Group& group) {
  return std::make_unique<Replicated>(replica, group, options.mean);
}

std::unique_ptr<Strategy> make(const DividedOptions& options, Replica& replica, comm::Group& group) {
  return std::make_unique<Divided>(replica, group, options);
}

std::unique_ptr<Strategy> make(const ParameterServerOptions& options, Replica& replica, comm::Group& group) {
  return std::make_unique<ParameterServer>(replica, group, options);
}

std::unique_ptr<Strategy> make(const AsynchronousOptions& options, Replica& replica, comm::Group& group) {
  return std::make_unique<Asynchronous>(replica, group, options);
}

std::unique_ptr<Strategy> make(const SyncReplicasOptions& options, Replica& replica, comm::Group& group) {
  return std::make_unique<SyncReplicas>(replica, group, options);
}

}  // namespace

std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options, Replica& replica, comm::Group& group) {
  return std::visit([&](const auto& each) { return make(each, replica, group); }, options);
}

}  // namespace tandem::sync
