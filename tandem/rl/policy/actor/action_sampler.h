// rl/policy/action_sampler.h: draws the actions of one env group from what a network gave, on the CPU in float32.
//
// Owns the group's random stream and, for state-dependent noise, the matrix of each row with the steps for which it is
// still held. Threads: single-thread.
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

/// What the network gave for each row; arrays as ActionFamily lists them.
struct ActionInputs {
  const float* head = nullptr;         // logits or mean
  const float* log_std = nullptr;      // of continuous families; for noise [features, size]
  std::int64_t log_std_stride = 0;     // as model::NormalRows
  const float* latent = nullptr;       // [rows, features], for noise
  const std::uint8_t* mask = nullptr;  // [rows, mask elements] or null
};

class ActionSampler {
 public:
  /// For `rows` rows a step. `features`: length of a latent row, for noise; else 0.
  ActionSampler(const Spec& spec, ActionFamily family, const ActorOptions& options, std::int64_t rows,
                std::int64_t features, Philox random);

  [[nodiscard]] std::int64_t features() const { return features_; }

  /// Actions and their log-probabilities for one step of all rows.
  void sample(const ActionInputs& inputs, const Decisions& out);
  /// Held noise is drawn anew at the next step: for all rows (the parameters changed), or for those whose episode
  /// ended.
  void renew();
  void renew(std::span<const std::uint8_t> done);

  void save(StateWriter& out) const;
  void load(StateReader& in);

 private:
  void hold_noise(const ActionInputs& inputs);

  const ActionSpace space_;
  const ActionFamily family_;
  const ActorOptions options_;
  const std::int64_t rows_, features_, size_;
  Philox random_;
  std::vector<float> variance_, matrices_;  // [features, size], [rows, features, size]
  std::vector<std::int32_t> held_;          // steps that a row's matrix is still good for; 0: draw anew
};

}  // namespace tandem::rl
