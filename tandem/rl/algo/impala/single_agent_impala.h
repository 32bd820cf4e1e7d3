// rl/algo/single_agent_impala.h: what an IMPALA or APPO run of environments with one agent samples and learns.
//
// Each rollout worker has a copy of the policy and, for every shard, env groups that take turns, one for each of its
// splits (alternating_rollout.h). Observations and rewards may be normalised: a batch brings the moments of what its
// worker saw, which count, once the learner comes to it, for the fragments that begin after that; they are published
// with the weights.
//
// Threads and blocking: as ImpalaWork.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tandem/pipeline/published.h"
#include "tandem/rl/algo/impala/impala_learner.h"
#include "tandem/rl/algo/impala/impala_setup.h"
#include "tandem/rl/algo/impala/impala_work.h"
#include "tandem/rl/algo/impala/sampler.h"
#include "tandem/rl/algo/impala/sharded_trajectory.h"
#include "tandem/rl/algo/impala/step_news.h"

namespace tandem::rl {

class SingleAgentImpala final : public ImpalaWork {
 public:
  /// `setup` outlives this. `patience`: as ImpalaLearner's. Throws ConfigError, and what the factories throw.
  SingleAgentImpala(const ImpalaSetup& setup, const ImpalaMemory& memory, Clock::duration patience);
  ~SingleAgentImpala() override;

  [[nodiscard]] const Spec& spec() const override { return spec_; }
  [[nodiscard]] const EpisodeWindow& episodes() const override { return episodes_; }
  [[nodiscard]] int replicas() const override { return learner_->replicas(); }
  [[nodiscard]] Range shards() const override { return learner_->shards(); }
  [[nodiscard]] std::string gradients_by() const override { return learner_->gradients_by(); }

  std::int64_t collect(int worker, std::size_t slot) override;
  void load_batch(std::size_t slot, std::size_t buffer) override;
  Step step(std::size_t buffer, double lr_factor) override;
  void renew_targets() override { learner_->renew_targets(); }
  std::int64_t exchange(std::size_t buffer, const News& mine, std::size_t telling) override;
  void publish(std::int64_t version) override;

  void forget() override;
  void account(std::size_t telling, bool dropped) override;
  void add_to(RunReport& report) override;

  [[nodiscard]] std::string params_sha256() override;
  [[nodiscard]] std::string state_sha256() override;
  [[nodiscard]] std::vector<learner::ReplicaTeam::Work> work() const override { return learner_->team().work(); }

  [[nodiscard]] std::uint64_t passes() const override { return learner_->passes(); }
  /// "state", "shard-N", "normalizers", of APPO "target", and one part for every env group.
  void save(learner::StateParts& parts) override;
  [[nodiscard]] std::vector<std::string> part_names() const override;
  RolloutWorker::Resumed load(const learner::StateParts& parts, const Before& before) override;
  void check_first_group(const model::NamedTensors& first_group) const override;

 private:
  // Of one batch, to the owner.
  struct Telling {
    ImpalaNumbers numbers;
    std::vector<Episode> episodes;
  };

  [[nodiscard]] std::shared_ptr<ActorCritic> build_policy() const;
  void build_sampler(int worker);
  void build_memory(const ImpalaMemory& memory);
  // Env groups of the run are counted by worker, shard and split; those of a worker on this rank follow each other.
  [[nodiscard]] Range group_numbers(int worker) const {
    const Range shards = learner_->shards();
    const int first = worker * setup_.shards, splits = setup_.impala.splits;
    return {(first + shards.begin) * splits, (first + shards.end) * splits};
  }
  [[nodiscard]] std::size_t expected_results() const;

  const ImpalaSetup& setup_;
  const Spec spec_;
  Normalizers normalizers_;  // the learner thread's, while it runs
  EpisodeWindow episodes_;
  LearnReport sums_;  // of the update that is under way

  std::unique_ptr<ImpalaLearner> learner_;
  std::vector<std::unique_ptr<Sampler>> samplers_;  // by worker
  std::vector<QueuedBatch> queued_;                 // by slot
  std::vector<ShardedTrajectory> buffers_;
  std::vector<Telling> tellings_;
  std::unique_ptr<pipeline::Published<Behaviour>> behaviour_;
  // The learner thread's, while it runs.
  std::span<const ImpalaNumbers> learned_;  // of the last step
  NormalizerMoments moments_;
  std::unique_ptr<StepNews> news_;
};

}  // namespace tandem::rl
