// rl/policy/actor/mlp_actor.h: acts with an MlpPolicy on the CPU, without autograd, dispatch or allocation.
//
// The network runs in MlpInference on a copy of the parameters that refresh() renews. A row's action depends on its
// observation, the parameters, the instruction set and the group's random stream alone.
// Threads: single-thread. Ownership: the policy is not owned and must outlive the actor.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/rl/policy/actor/action_sampler.h"
#include "tandem/rl/policy/actor/actor.h"
#include "tandem/rl/policy/actor/actor_options.h"
#include "tandem/rl/policy/kernels/mlp_inference.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {

/// The fast actor of small policies; make_actor() chooses it.
class MlpActor final : public Actor {
 public:
  /// Whether the policy has no torso, and its parameters are float32. They may lie on another device: refresh() copies
  /// them.
  [[nodiscard]] static bool can_run(const MlpPolicy& policy);

  /// For `rows` rows a step. `seed`: of the group's random stream. Throws ConfigError when !can_run(policy), or when
  /// this processor lacks the instruction set of the options.
  MlpActor(const MlpPolicy& policy, const ActorOptions& options, std::int64_t rows, std::uint64_t seed);

  void refresh() override;
  void act(const Observation& observation, const at::Tensor& mask, const Decisions& out) override;
  void episodes_ended(std::span<const std::uint8_t> done) override { sampler_.renew(done); }
  void evaluate(const Observation& observation, const at::Tensor& state, float* value) override;
  [[nodiscard]] std::vector<std::byte> save() const override;
  void load(std::span<const std::byte> state) override;

 private:
  // Rows `begin` to `begin + rows` of an observation as features: in features_ or, where observations are features
  // already, where they lie. Valid until the next call.
  const float* features(const Observation& observation, std::int64_t begin, std::int64_t rows);

  // The definition of the network, of which inference_ has a packed copy.
  const MlpPolicy& policy_;
  const std::int64_t rows_;
  MlpInference inference_;
  ActionSampler sampler_;
  // Memory for one step: the network's inputs and outputs, and a copy of log_std. Empty where the policy needs none.
  std::vector<float> features_, head_, latent_, log_std_;
  std::vector<const std::byte*> leaves_;
};

}  // namespace tandem::rl
