// rl/algo/multi_agent_run.h: a whole PPO run with several agents an environment: policies, replicas, environments.
//
//     MultiAgentRun run(setup);
//     while (run.env_steps() < setup.total_steps) print(run.update().policies);
//
// Each policy that is trained has a learner of its own (a ReplicaTeam, the optimizer, PPO as in ppo.h), with streams of
// random numbers derived from the run's seed and its place in the policy map. All replicas sample with all policies at
// once; then one policy after the other learns from the decisions of its agents, on all replicas. Policies that are not
// trained act as they are.
//
// An update has num_envs x rollout_steps environment steps. How many decisions a policy makes in them depends on the
// environment; a minibatch has an equal share of each shard's, so minibatches, and not their rows, are what is fixed.
//
// With the same shards the run has the same bits on any number of replicas and ranks, saved and loaded in between or
// not. Threads, blocking and collectives: as PpoRun.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tandem/device/cuda_kernels.h"
#include "tandem/learner/replica_team.h"
#include "tandem/learner/state_parts.h"
#include "tandem/rl/algo/agent_policies.h"
#include "tandem/rl/algo/ppo/ppo.h"
#include "tandem/rl/algo/training_run.h"
#include "tandem/rl/rollout/agent_results.h"

namespace tandem::rl {

struct MultiAgentSetup {
  std::uint64_t seed = 0;
  std::int64_t total_steps = 100'000;  // environment steps over all environments; what schedules run over
  int shards = 1;
  std::vector<c10::Device> devices{c10::Device(c10::kCPU)};  // of this rank, one replica each
  learner::Ranks ranks;
  PpoOptions ppo;  // of every policy that is trained
  ActorOptions actor;
  model::RngOrder rng = model::RngOrder::kShards;
  device::CudaKernels cuda_kernels = device::CudaKernels::kDeterministic;
  sync::StrategyOptions strategy;  // but for its mean; one whose numbers do not depend on time
  sync::GradientCheck gradient_check = sync::GradientCheck::kSum;
  PolicyMapOptions policies;
  std::function<std::unique_ptr<MultiAgentGroup>(int count)> make_envs;
  NamedPolicyFactory make_policy;
};

class MultiAgentRun final : public TrainingRun {
 public:
  /// Builds everything and starts the first episodes. Collective. Throws ConfigError with all faults of the options,
  /// for a policy that remembers and a strategy whose numbers depend on time, and what the factories throw.
  explicit MultiAgentRun(MultiAgentSetup setup);
  ~MultiAgentRun() override;

  /// One rollout, and the learning from it of every policy that is trained. Collective. Throws RunError when a policy
  /// has too few decisions to learn from.
  RunReport update() override;
  [[nodiscard]] bool all_reported() const override { return true; }

  [[nodiscard]] std::int64_t updates() const override { return updates_; }
  [[nodiscard]] std::int64_t env_steps() const override { return env_steps_; }
  /// Of the environments: returns are summed over their agents.
  [[nodiscard]] const EpisodeWindow& episodes() const override { return episodes_; }
  /// Of the environment as a whole; see whole_spec().
  [[nodiscard]] const Spec& spec() const override { return spec_; }
  [[nodiscard]] int replicas() const override { return replicas_; }
  [[nodiscard]] int shards() const override { return setup_.shards; }
  [[nodiscard]] const learner::Ranks& ranks() const override { return setup_.ranks; }
  [[nodiscard]] std::string why_numbers_differ() const override { return ""; }
  [[nodiscard]] std::string gradients_by() const override;

  [[nodiscard]] const PolicyMap& policies() const { return map_; }
  /// This rank's first replica's, between updates. `policy`: its place in policies().
  [[nodiscard]] ActorCritic& policy(std::size_t policy) { return *seats_[policy].modules.front(); }

  /// Of all policies, trained or not, under NAME/PARAMETER.
  [[nodiscard]] std::string params_sha256() override;
  [[nodiscard]] std::string state_sha256() override;
  /// Summed over the policies.
  [[nodiscard]] std::vector<learner::ReplicaTeam::Work> work() const override;

  /// Parts "policy-NAME" (the model, and its optimizer where it is trained) and "progress-NAME" for each policy, "run",
  /// and one for every shard and every env group.
  [[nodiscard]] learner::StateParts save() override;
  RolloutWorker::Resumed load(const learner::ReadPart& read_part) override;

 private:
  // One policy of the run.
  struct Seat {
    std::vector<std::shared_ptr<ActorCritic>> modules;  // by replica of this rank
    std::unique_ptr<learner::ReplicaTeam> team;         // null: it is not trained
    std::vector<std::unique_ptr<Ppo>> ppo;              // by replica of this rank; likewise
    EpisodeWindow episodes;
    std::vector<LearnReport> learned;  // by replica of this rank
  };

  void build_policy(std::size_t policy, const std::vector<sync::Placement>& placements);
  void build_worker(int shard, int local);
  void build_teams(const std::vector<sync::Placement>& placements);
  [[nodiscard]] MultiAgentWorker& worker(int shard) {
    return *workers_[static_cast<std::size_t>(shard - shards_.begin)];
  }
  [[nodiscard]] learner::ReplicaTeam& any_team() const;

  double collect();
  void gather_results();
  void require_decisions() const;
  void learn(std::size_t policy, double progress);
  void take_slowest(double& sample_seconds);
  [[nodiscard]] PolicyReport report_of(std::size_t policy) const;
  [[nodiscard]] model::NamedTensors progress_of(std::size_t policy) const;
  [[nodiscard]] model::NamedTensors state_of(std::size_t policy);
  void load_policy(std::size_t policy, const learner::StateParts& parts);
  void load_streams(int local, int shard, const learner::StateParts& parts);

  const MultiAgentSetup setup_;
  const MultiAgentSpec agents_;
  PolicyMap map_;
  Spec spec_;
  EpisodeWindow episodes_;
  AgentResults results_;  // of the last update
  std::int64_t updates_ = 0, env_steps_ = 0;
  int replicas_ = 1;
  Range shards_;                                            // of this rank
  std::vector<Seat> seats_;                                 // by policy
  std::vector<std::unique_ptr<MultiAgentWorker>> workers_;  // by shard of this rank
  std::unique_ptr<StepWatch> watch_;                        // of their steps
};

}  // namespace tandem::rl
