#include "tandem/rl/algo/impala/agents_sampler.h"

#include <utility>

#include "tandem/base/check.h"

namespace tandem::rl {

AgentsSampler::AgentsSampler(std::vector<std::shared_ptr<ActorCritic>> policies, std::vector<bool> trained,
                             std::vector<std::unique_ptr<MultiAgentWorker>> groups)
    : policies_(std::move(policies)), groups_(std::move(groups)) {
  TANDEM_CHECK(trained.size() == policies_.size(), trained.size(), " flags for ", policies_.size(), " policies");
  for (std::size_t policy = 0; policy < policies_.size(); ++policy) {
    policies_[policy]->eval();
    if (trained[policy]) weights_.push_back(weights_of(*policies_[policy]));
  }
}

QueuedDecisions AgentsSampler::make_slot() const {
  QueuedDecisions slot;
  for (const auto& group : groups_) slot.groups.push_back(group->make_fragments());
  return slot;
}

std::int64_t AgentsSampler::collect(pipeline::Published<std::vector<Weights>>& newest, QueuedDecisions& into) {
  {
    const auto reading = newest.read();
    if (reading.version() != version_) {
      for (std::size_t i = 0; i < weights_.size(); ++i) copy_weights(reading.value()[i], weights_[i]);
    }
    version_ = reading.version();
  }
  into.results.clear();
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    groups_[group]->collect(into.groups[group]);
    groups_[group]->append_results(into.results);
  }
  return version_;
}

}  // namespace tandem::rl
