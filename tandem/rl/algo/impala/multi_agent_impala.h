// rl/algo/multi_agent_impala.h: what an IMPALA or APPO run of environments with several agents samples and learns.
//
// Each rollout worker has a copy of every policy and an env group for every shard. A batch has the decisions of all
// policies that are trained, a fragment for each and each shard; each has a learner of its own (impala_learner.h), with
// streams of random numbers derived from the run's seed and its place in the policy map, and they step one after the
// other. Policies that are not trained act as they are.
//
// A batch is num_envs / workers x rollout_steps environment steps. How many decisions a policy makes in them depends on
// the environment; means are over those that are complete. A policy that made none in a batch, on no rank, makes no
// step of it.
//
// Threads and blocking: as ImpalaWork.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tandem/pipeline/published.h"
#include "tandem/rl/algo/impala/agents_sampler.h"
#include "tandem/rl/algo/impala/decision_trajectory.h"
#include "tandem/rl/algo/impala/impala_learner.h"
#include "tandem/rl/algo/impala/impala_setup.h"
#include "tandem/rl/algo/impala/impala_work.h"
#include "tandem/rl/algo/impala/step_news.h"

namespace tandem::rl {

class MultiAgentImpala final : public ImpalaWork {
 public:
  /// `setup`, which has agents, outlives this. `patience`: as ImpalaLearner's. Throws ConfigError, also for a policy
  /// that remembers, and what the factories throw.
  MultiAgentImpala(const ImpalaSetup& setup, const ImpalaMemory& memory, Clock::duration patience);
  ~MultiAgentImpala() override;

  [[nodiscard]] const Spec& spec() const override { return spec_; }
  /// Of the environments: returns are summed over their agents.
  [[nodiscard]] const EpisodeWindow& episodes() const override { return episodes_; }
  [[nodiscard]] int replicas() const override { return any_learner().replicas(); }
  [[nodiscard]] Range shards() const override { return any_learner().shards(); }
  [[nodiscard]] std::string gradients_by() const override;

  std::int64_t collect(int worker, std::size_t slot) override;
  void load_batch(std::size_t slot, std::size_t buffer) override;
  Step step(std::size_t buffer, double lr_factor) override;
  void renew_targets() override;
  std::int64_t exchange(std::size_t buffer, const News& mine, std::size_t telling) override;
  void publish(std::int64_t version) override;

  void forget() override;
  void account(std::size_t telling, bool dropped) override;
  void add_to(RunReport& report) override;

  /// Of all policies, trained or not, under NAME/PARAMETER.
  [[nodiscard]] std::string params_sha256() override;
  [[nodiscard]] std::string state_sha256() override;
  [[nodiscard]] std::vector<learner::ReplicaTeam::Work> work() const override;

  /// Of the first policy that is trained; of each: in "progress-NAME".
  [[nodiscard]] std::uint64_t passes() const override { return any_learner().passes(); }
  /// For each policy "policy-NAME" (the model, and its optimizer where it is trained), "progress-NAME" and, of APPO,
  /// "target-NAME" where it is trained; one for every shard and every env group.
  void save(learner::StateParts& parts) override;
  [[nodiscard]] std::vector<std::string> part_names() const override;
  RolloutWorker::Resumed load(const learner::StateParts& parts, const Before& before) override;
  void check_first_group(const model::NamedTensors&) const override {}  // no earlier build had any

 private:
  // One policy of the run.
  struct Seat {
    std::unique_ptr<ImpalaLearner> learner;  // null: it is not trained
    std::shared_ptr<ActorCritic> frozen;     // of those, the policy
    EpisodeWindow episodes;
    // Of the update that is under way.
    LearnReport sums;
    std::int64_t decisions = 0;
    // The learner thread's, while it runs: of the last step.
    double grad_norm = 0;
  };
  // A batch beside the learner.
  struct Loaded {
    std::vector<std::vector<DecisionTrajectory>> decisions;  // by policy, by shard of this rank; none of the untrained
    std::vector<std::vector<learner::Batch>> batches;        // of them
    std::vector<double> results;
  };
  // Of one batch, to the owner.
  struct Telling {
    AgentResults results;
    std::vector<ImpalaNumbers> numbers;  // by policy; of one that made no step, of no rows
    std::vector<double> grad_norms;      // likewise
  };

  [[nodiscard]] ImpalaLearner& any_learner() const;
  [[nodiscard]] const ActorCritic& policy(std::size_t policy) const;
  [[nodiscard]] std::shared_ptr<ActorCritic> build_policy(std::size_t policy) const;
  void build_seats(Clock::duration patience);
  void build_sampler(int worker);
  void build_memory(const ImpalaMemory& memory);
  [[nodiscard]] std::size_t expected_episodes(std::size_t agents) const;
  // Env groups of the run are counted by worker and shard.
  [[nodiscard]] int group_number(int worker, int shard) const { return worker * setup_.shards + shard; }
  double count_decisions(const Loaded& loaded);
  [[nodiscard]] model::NamedTensors state_of(std::size_t policy) const;
  void load_policy(std::size_t policy, const learner::StateParts& parts);

  const ImpalaSetup& setup_;
  const MultiAgentSpec agents_;
  const PolicyMap map_;
  const Spec spec_;
  const learner::Ranks ranks_;  // which wait for each other as long as the replicas do
  EpisodeWindow episodes_;
  std::vector<Seat> seats_;                               // by policy
  std::vector<std::unique_ptr<AgentsSampler>> samplers_;  // by worker
  std::vector<QueuedDecisions> queued_;                   // by slot
  std::vector<Loaded> buffers_;
  std::vector<Telling> tellings_;
  std::unique_ptr<pipeline::Published<std::vector<Weights>>> behaviour_;  // of those that are trained
  // The learner thread's, while it runs.
  std::vector<double> own_decisions_;                    // of the batch, by policy
  std::vector<std::vector<double>> all_decisions_;       // of all ranks
  std::vector<std::span<const ImpalaNumbers>> learned_;  // of the last step, by policy
  std::unique_ptr<StepNews> news_;
};

}  // namespace tandem::rl
