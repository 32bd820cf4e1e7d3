// rl/algo/sampler.h: a rollout worker's env groups and its policy, which takes the learner's newest weights, and the
// normalisers that belong to them, before each fragment.
//
// Threads: single-thread, the rollout worker's; constructed, saved and loaded by others while that rests.
#pragma once
#include <memory>
#include <vector>

#include "tandem/pipeline/published.h"
#include "tandem/rl/algo/impala/queued_batch.h"
#include "tandem/rl/algo/impala/weights.h"
#include "tandem/rl/policy/normalizer.h"
#include "tandem/rl/policy/policy.h"
#include "tandem/rl/rollout/alternating_rollout.h"

namespace tandem::rl {

/// What a fragment is collected with.
struct Behaviour {
  Weights weights;
  Normalizers normalizers;
};

class Sampler {
 public:
  /// `policy` on the CPU. `normalizers`: of the run, for their memory.
  Sampler(std::shared_ptr<ActorCritic> policy, std::unique_ptr<AlternatingRollout> rollout,
          const Normalizers& normalizers);

  /// Collects a batch with the newest, and returns their version. Throws EnvError.
  std::int64_t collect(pipeline::Published<Behaviour>& newest, QueuedBatch& into);
  /// The next fragment takes the newest though their version is that of the last one.
  void forget() { version_ = -1; }
  [[nodiscard]] const AlternatingRollout& rollout() const { return *rollout_; }

 private:
  const std::shared_ptr<ActorCritic> policy_;
  const std::unique_ptr<AlternatingRollout> rollout_;
  const Weights weights_;
  Normalizers normalizers_;
  std::int64_t version_ = -1;
};

}  // namespace tandem::rl
