#include "tandem/sync/strategies.h"

#include "tandem/base/check.h"

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

StrategyOptions options_of(StrategyKind kind) {
  switch (kind) {
    case StrategyKind::kReplicated:
      return ReplicatedOptions{};
    case StrategyKind::kDivided:
      return DividedOptions{};
    case StrategyKind::kParameterServer:
      return ParameterServerOptions{};
    case StrategyKind::kAsynchronous:
      return AsynchronousOptions{};
    case StrategyKind::kSyncReplicas:
      return SyncReplicasOptions{};
  }
  TANDEM_CHECK(false, "strategy ", static_cast<int>(kind));
}

StrategyOptions with_mean(StrategyOptions options, const MeanOptions& mean) {
  std::visit([&mean](auto& each) { each.mean = mean; }, options);
  return options;
}

bool is_reproducible(const StrategyOptions& options, int replicas) {
  if (std::holds_alternative<AsynchronousOptions>(options)) return false;
  const auto* synchronous = std::get_if<SyncReplicasOptions>(&options);
  if (synchronous == nullptr) return true;
  return synchronous->replicas_to_aggregate.value_or(replicas) == replicas && !synchronous->total_num_replicas &&
         synchronous->acceptance == Acceptance::kWhole && synchronous->tokens == Tokens::kOwn;
}

bool keeps_account(const StrategyOptions& options) {
  return std::holds_alternative<AsynchronousOptions>(options) || std::holds_alternative<SyncReplicasOptions>(options);
}

std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options, Replica& replica, comm::Group& group) {
  return std::visit([&](const auto& each) { return make(each, replica, group); }, options);
}

}  // namespace tandem::sync
