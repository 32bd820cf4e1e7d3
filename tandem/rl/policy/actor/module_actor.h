// rl/policy/actor/module_actor.h: acts with any ActorCritic, through its forward() and its distribution(), and carries
// the states of a RecurrentActorCritic.
//
// The network runs on the policy's device; actions are drawn on the CPU, so that draws do not depend on the device.
// Threads: single-thread. Ownership: the policy is not owned and must outlive the actor.
#pragma once
#include <ATen/core/Generator.h>

#include "tandem/rl/policy/actor/action_sampler.h"
#include "tandem/rl/policy/actor/actor.h"
#include "tandem/rl/policy/policy.h"
#include "tandem/rl/policy/recurrent.h"

namespace tandem::rl {

/// The actor of all other policies, and of a user's own.
class ModuleActor final : public Actor {
 public:
  /// For `rows` rows a step. `seed` starts the group's random stream.
  ModuleActor(ActorCritic& policy, const ActorOptions& options, std::int64_t rows, std::uint64_t seed);

  void refresh() override;
  void act(const Observation& observation, const at::Tensor& mask, const Decisions& out) override;
  void episodes_ended(std::span<const std::uint8_t> done) override;
  [[nodiscard]] at::Tensor state() const override { return state_; }
  void evaluate(const Observation& observation, const at::Tensor& state, float* value) override;
  [[nodiscard]] std::vector<std::byte> save() const override;
  void load(std::span<const std::byte> state) override;

 private:
  // Runs the network in eval mode without gradients. Action parameters come as float32 on the CPU, and with them the
  // next state where the policy is recurrent.
  [[nodiscard]] SequenceOutput forward(const Observation& observation, const at::Tensor& state);

  // forward() switches it between training and evaluation, hence not const.
  ActorCritic& policy_;
  // The policy if it is recurrent, else null.
  RecurrentActorCritic* const recurrent_;
  const ActorOptions options_;
  const std::int64_t rows_;
  // Serves distribution()->sample().
  mutable at::Generator generator_;
  // For state-dependent noise, which is held over steps. Made by the first act(), which tells the number of features.
  std::unique_ptr<ActionSampler> noise_;
  Philox noise_stream_;
  // [rows, state size]; undefined for policies that are not recurrent.
  at::Tensor state_;
};

}  // namespace tandem::rl
