// rl/policy/actor/action_sampler.h: draws the actions of one env group from the outputs of a network, on the CPU in
// float32.
//
// The sampler owns the group's random stream and, for state-dependent noise, a noise matrix for each row with the
// number of steps for which the matrix is still held. A row's draw does not depend on how many rows follow.
//
// Threads: single-thread. Memory: taken when it is made; sample() takes none. Errors: RunError when parameters are not
// finite (a diverged policy), EnvError when a mask allows nothing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/base/philox.h"
#include "tandem/rl/env/spec.h"
#include "tandem/rl/env/state_bytes.h"
#include "tandem/rl/policy/action_family.h"
#include "tandem/rl/policy/actor/actor.h"
#include "tandem/rl/policy/actor/actor_options.h"

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

/// The draws of one env group, by the family of its policy.
class ActionSampler {
 public:
  /// For `rows` rows a step. `features`: length of a latent row, for noise; else 0.
  ActionSampler(const Spec& spec, ActionFamily family, const ActorOptions& options, std::int64_t rows,
                std::int64_t features, Philox random);

  /// The length of a latent row that it was made for.
  [[nodiscard]] std::int64_t features() const { return features_; }

  /// Actions and their log-probabilities for one step of all rows.
  void sample(const ActionInputs& inputs, const Decisions& out);
  /// Has held noise drawn anew at the next step: for all rows because the parameters changed, or for the rows whose
  /// episode ended. Nothing is drawn here, so the random stream does not move.
  void renew();
  void renew(std::span<const std::uint8_t> done);

  /// The random stream, the held matrices and how long they are held, for checkpoints. load() throws CheckpointError.
  void save(StateWriter& out) const;
  void load(StateReader& in);

 private:
  // Draws the noise matrices that are due, and counts one step of all held ones.
  void hold_noise(const ActionInputs& inputs);

  // rows_ rows a step; features_ of a latent row, for noise; size_ numbers of an action.
  const ActionSpace space_;
  const ActionFamily family_;
  const ActorOptions options_;
  const std::int64_t rows_, features_, size_;
  Philox random_;
  // For noise: exp(2 log_std) as [features, size], and a matrix for each row as [rows, features, size].
  std::vector<float> variance_, matrices_;
  // By row: steps for which its matrix is still held; 0: a new one is drawn at the next step.
  std::vector<std::int32_t> held_;
};

}  // namespace tandem::rl
