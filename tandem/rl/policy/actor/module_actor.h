// rl/policy/module_actor.h: acts with any ActorCritic, through its forward() and its distribution(), and carries the
// states of a RecurrentActorCritic.
//
// The network runs on the policy's device; actions are drawn on the CPU.
// Threads: single-thread. Ownership: the policy is not owned and must outlive the actor.
#pragma once
#include <ATen/core/Generator.h>

#include "tandem/rl/policy/actor/action_sampler.h"
#include "tandem/rl/policy/actor/actor.h"
#include "tandem/rl/policy/policy.h"
#include "tandem/rl/policy/recurrent.h"

namespace tandem::rl {

class ModuleActor final : public Actor {
 public:
  /// `seed`: of the group's random stream.
  ModuleActor(ActorCritic& policy, const ActorOptions& options, std::int64_t rows, std::uint64_t seed);

  void refresh() override;
  void act(const Observation& observation, const at::Tensor& mask, const Decisions& out) override;
  void episodes_ended(std::span<const std::uint8_t> done) override;
  [[nodiscard]] at::Tensor state() const override { return state_; }
  void evaluate(const Observation& observation, const at::Tensor& state, float* value) override;
  [[nodiscard]] std::vector<std::byte> save() const override;
  void load(std::span<const std::byte> state) override;

 private:
  // Output on the CPU, and the next state where there are states.
  [[nodiscard]] SequenceOutput forward(const Observation& observation, const at::Tensor& state);

  ActorCritic& policy_;
  RecurrentActorCritic* const recurrent_;  // the same, or null
  const ActorOptions options_;
  const std::int64_t rows_;
  mutable at::Generator generator_;       // of distribution()->sample()
  std::unique_ptr<ActionSampler> noise_;  // for state-dependent noise, which is held over steps
  Philox noise_stream_;
  at::Tensor state_;  // [rows, state size]; undefined for policies that remember nothing
};

}  // namespace tandem::rl
