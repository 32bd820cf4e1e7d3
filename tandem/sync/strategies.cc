#include "tandem/sync/strategies.h"

namespace tandem::sync {
namespace {

std::unique_ptr<Strategy> make(const ReplicatedOptions& options, Replica& replica, comm::Group& group) {
  return std::make_unique<Replicated>(replica, group, options.mean);
}

}  // namespace

StrategyOptions with_mean(StrategyOptions options, const MeanOptions& mean) {
  std::visit([&mean](auto& each) { each.mean = mean; }, options);
  return options;
}

std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options, Replica& replica, comm::Group& group) {
  return std::visit([&](const auto& each) { return make(each, replica, group); }, options);
}

}  // namespace tandem::sync
