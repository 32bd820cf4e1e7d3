// rl/policy/actor/actors.h: the three actors, of which make_actor() chooses one, and the sampler of their actions.
//
// Threads: single-thread. Ownership: the policy is not owned and must outlive the actor.
#pragma once
#include <ATen/core/Generator.h>

#include "tandem/base/philox.h"
#include "tandem/rl/env/state_bytes.h"
#include "tandem/rl/policy/actor/actor.h"
#include "tandem/rl/policy/kernels/images/encoder_net.h"
#include "tandem/rl/policy/kernels/mlp_inference.h"
#include "tandem/rl/policy/kernels/sequences/recurrent_inference.h"
#include "tandem/rl/policy/mlp_policy.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::rl {

/// The outputs of a network for each row, as ActionFamily lists them. Only those that the family needs are looked at.
struct ActionInputs {
  /// [rows, head_size()]: logits or mean.
  const float* head = nullptr;
  /// For continuous families: [size], or for noise [features, size].
  const float* log_std = nullptr;
  /// Elements from one row's log_std to the next, as in model::NormalRows; 0: one log_std serves all rows.
  std::int64_t log_std_stride = 0;
  /// [rows, features], for noise.
  const float* latent = nullptr;
  /// [rows, mask elements], non-zero where allowed, or null.
  const std::uint8_t* mask = nullptr;
};

/// Draws the actions of one env group from the outputs of a network, on the CPU in float32, by the family of its
/// policy.
///
/// The sampler owns the group's random stream and, for state-dependent noise, a noise matrix for each row with the
/// number of steps for which the matrix is still held. A row's draw does not depend on how many rows follow. Memory is
/// taken when it is made; sample() takes none. Errors: RunError when parameters are not finite (a diverged policy),
/// EnvError when a mask allows nothing.
class ActionSampler {
 public:
  /// For `rows` rows a step. `features`: length of a latent row, for noise; else 0.
  ActionSampler(const Spec& spec, ActionFamily family, const ActorOptions& options, std::int64_t rows,
                std::int64_t features, Philox random);

  /// The length of a latent row that it was made for.
  [[nodiscard]] std::int64_t features() const { return features_; }

  /// Actions and their log-probabilities for one step of all rows.
  void sample(const ActionInputs& inputs, const Decisions& out);
  /// Has noise drawn anew at the next step: held matrices of all rows because the parameters changed, or whatever noise
  /// the rows have whose episode ended. Nothing is drawn here, so the random stream does not move.
  void renew();
  void renew(std::span<const std::uint8_t> done);

  /// The random stream, the noise of the last step and how long it is held, for checkpoints. load() throws
  /// CheckpointError.
  void save(StateWriter& out) const;
  void load(StateReader& in);

 private:
  // Draws the noise matrices that are due, and counts one step of all held ones.
  void hold_noise(const ActionInputs& inputs);
  // The draws of this step, [rows, size], which follow from those of the last one; null where they are independent.
  const float* correlated_draws();

  // Options of each discrete choice. rows_ rows a step; features_ of a latent row, for noise; size_ numbers of an
  // action.
  const std::vector<std::int64_t> choices_;
  const ActionFamily family_;
  const ActorOptions options_;
  const std::int64_t rows_, features_, size_;
  Philox random_;
  // For noise: exp(2 log_std) as [features, size], and a matrix for each row as [rows, features, size].
  std::vector<float> variance_, matrices_;
  // By row: steps for which its matrix is still held; 0: a new one is drawn at the next step.
  std::vector<std::int32_t> held_;
  // For correlated draws: those of the last step, [rows, size], and by row whether they count.
  std::vector<float> draws_;
  std::vector<std::uint8_t> follows_;
};

/// Rows of an observation as a network's features, without tensor operations.
class ActorFeatures {
 public:
  /// Memory is taken here, so that of() takes none.
  /// For up to `rows` rows at once of observations as `spec` has them. `encoder`, which must outlive it, is the
  /// policy's. Throws ConfigError when this processor does not have `set`.
  ActorFeatures(const Spec& spec, const Encoder& encoder, std::int64_t rows, InstructionSet set);

  /// Torsos take their parameters as they are now; without torsos it does nothing, since no other leaf goes through
  /// parameters. To be called when they have changed, as Actor::refresh() is. Waits for nobody, and takes no memory:
  /// workers call it at each update.
  void refresh();
  /// Rows `begin` to `begin + rows`: encoded, or where they lie when observations are features already. Valid until the
  /// next call. Throws InvariantError for an observation of another kind.
  const float* of(const Observation& observation, std::int64_t begin, std::int64_t rows);

 private:
  const Encoder& encoder_;
  // Images go through it row by row, so a row's features do not depend on how many rows there are. None without images.
  std::optional<EncoderNet<float>> torsos_;
  std::vector<std::size_t> leaf_bytes_;  // of a row
  std::vector<float> features_;          // empty where observations are features
  std::vector<const std::byte*> leaves_;
};

/// Acts with an MlpPolicy on the CPU, without autograd, dispatch or allocation: the fast actor of small policies.
///
/// The network runs in MlpInference on a copy of the parameters that refresh() renews. A row's action depends on its
/// observation, the parameters, the instruction set and the group's random stream alone.
class MlpActor final : public Actor {
 public:
  /// Whether the policy's parameters are float32. Those of a policy without a torso may lie on another device:
  /// refresh() copies them.
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
  // The definition of the network, of which inference_ has a packed copy.
  const MlpPolicy& policy_;
  const std::int64_t rows_;
  MlpInference inference_;
  ActionSampler sampler_;
  ActorFeatures features_;
  // Memory for one step: the network's outputs, and a copy of log_std. Empty where the policy needs none.
  std::vector<float> head_, latent_, log_std_;
};

/// Acts with a RecurrentPolicy on the CPU, as MlpActor with an MlpPolicy, and carries the states of its rows.
class RecurrentActor final : public Actor {
 public:
  /// As MlpActor::can_run().
  /// Looks at the policy as it is now.
  [[nodiscard]] static bool can_run(const RecurrentPolicy& policy);

  /// For `rows` rows a step. `seed`: of the group's random stream. Throws as RecurrentInference does.
  RecurrentActor(const RecurrentPolicy& policy, const ActorOptions& options, std::int64_t rows, std::uint64_t seed);

  void refresh() override;
  void act(const Observation& observation, const at::Tensor& mask, const Decisions& out) override;
  void episodes_ended(std::span<const std::uint8_t> done) override;
  [[nodiscard]] at::Tensor state() const override { return state_; }
  void evaluate(const Observation& observation, const at::Tensor& state, float* value) override;
  [[nodiscard]] std::vector<std::byte> save() const override;
  void load(std::span<const std::byte> state) override;

 private:
  // The definition of the network, of which inference_ has a packed copy.
  const RecurrentPolicy& policy_;
  const std::int64_t rows_;
  RecurrentInference inference_;
  ActionSampler sampler_;
  ActorFeatures features_;
  at::Tensor state_;  // [rows, state size]
  std::vector<float> head_, latent_, log_std_;
};

/// Acts with any other ActorCritic, and a user's own, through its forward() and its distribution(), and carries the
/// states of a RecurrentActorCritic. The network runs on the policy's device; actions are drawn on the CPU, so that
/// draws do not depend on the device.
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
