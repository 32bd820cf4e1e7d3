#include "tandem/rl/algo/impala/impala_sampler.h"

#include <utility>

#include "tandem/rl/algo/run_parts.h"

namespace tandem::rl {

ImpalaSampler::ImpalaSampler(std::vector<std::shared_ptr<ActorCritic>> policies, const std::vector<bool>& trained,
                             SampledEnvs envs, const Normalizers& normalizers)
    : policies_(std::move(policies)), envs_(std::move(envs)), normalizers_(normalizers) {
  for (std::size_t policy = 0; policy < policies_.size(); ++policy)
    if (trained[policy]) weights_.push_back(weights_of(*policies_[policy]));
}

QueuedBatch ImpalaSampler::make_slot() const {
  QueuedBatch slot;
  if (envs_.of_one) {
    for (const auto& group : envs_.of_one->groups()) slot.parts.push_back(group->make_fragment());
  }
  for (const auto& group : envs_.of_several) slot.decisions.push_back(group->make_fragments());
  return slot;
}

// The reading ends before the rollout begins: copying takes microseconds and a rollout much longer, and the writer must
// find a free copy meanwhile. Fragments of one agent are written by the environments and the policy in place.
std::int64_t ImpalaSampler::collect(pipeline::Published<Behaviour>& newest, QueuedBatch& into) {
  {
    const auto reading = newest.read();
    if (reading.version() != version_) {
      for (std::size_t i = 0; i < weights_.size(); ++i) copy_weights(reading.value().weights[i], weights_[i]);
      normalizers_ = reading.value().normalizers;
    }
    version_ = reading.version();
  }
  into.results.clear();
  if (envs_.of_one) {
    envs_.of_one->collect(normalizers_, into.parts);
    for (const auto& group : envs_.of_one->groups()) group->append_results(into.results);
  }
  for (std::size_t group = 0; group < envs_.of_several.size(); ++group) {
    envs_.of_several[group]->collect(into.decisions[group]);
    envs_.of_several[group]->append_results(into.results);
  }
  return version_;
}

void ImpalaSampler::save(int first, learner::StateParts& parts) const {
  if (envs_.of_one) return save_groups(envs_.of_one->groups(), first, parts);
  save_groups(envs_.of_several, first, parts);
}

RolloutWorker::Resumed ImpalaSampler::load(const learner::StateParts& parts, int first,
                                           std::uint64_t seed_of_new_episodes) const {
  if (envs_.of_one) return load_groups(parts, envs_.of_one->groups(), first, seed_of_new_episodes);
  return load_groups(parts, envs_.of_several, first, seed_of_new_episodes);
}

}  // namespace tandem::rl
