#include "tandem/rl/algo/impala/sampler.h"

#include "tandem/rl/rollout/group_results.h"

namespace tandem::rl {

Sampler::Sampler(std::shared_ptr<ActorCritic> policy, std::unique_ptr<AlternatingRollout> rollout,
                 const Normalizers& normalizers)
    : policy_(std::move(policy)),
      rollout_(std::move(rollout)),
      weights_(weights_of(*policy_)),
      normalizers_(normalizers) {}

std::int64_t Sampler::collect(pipeline::Published<Behaviour>& newest, QueuedBatch& into) {
  {
    const auto reading = newest.read();
    if (reading.version() != version_) {
      copy_weights(reading.value().weights, weights_);
      normalizers_ = reading.value().normalizers;
    }
    version_ = reading.version();
  }
  rollout_->collect(normalizers_, into.parts);
  into.results.clear();
  for (const auto& group : rollout_->groups()) group->append_results(into.results);
  return version_;
}

}  // namespace tandem::rl
