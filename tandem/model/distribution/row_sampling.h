// model/row_sampling.h: actions for the inner loop of a rollout: raw float32 rows on the CPU, no autograd, no
// allocation.
//
// Each function takes row-major arrays and draws row 0 first, so equal generators give equal actions and a row's
// numbers do not depend on how many rows follow. log_prob equals that of the Distribution class to float rounding.
// A null `random` gives the mode instead of a draw, and the mode's log_prob.
//
// Threads: any, each with its own generator. Ownership: nothing is kept.
// Errors: RunError naming the row when parameters are not finite (a diverged policy); EnvError when a mask
// allows nothing.
#pragma once
#include <cstdint>
#include <span>

#include "tandem/base/philox.h"

namespace tandem::model {

/// One choice a row or several: actions [rows, nvec.size()].
struct CategoricalRows {
  const float* logits;                 // [rows, sum of nvec]
  const std::uint8_t* mask = nullptr;  // [rows, sum of nvec], non-zero: allowed; null: all are
  std::int64_t rows = 0;
  std::span<const std::int64_t> nvec;  // options of each choice
};
void sample_categorical(const CategoricalRows& from, Philox* random, std::int64_t* actions, float* log_prob);

/// A real vector a row: actions [rows, size].
struct NormalRows {
  const float* mean;     // [rows, size]
  const float* log_std;  // row r begins at log_std + r * log_std_stride
  std::int64_t rows = 0;
  std::int64_t size = 0;
  std::int64_t log_std_stride = 0;  // elements: 0 for one row that serves all, `size` for a row each
  const float* draws = nullptr;     // [rows, size], standard normal; null: drawn here
};
void sample_normal(const NormalRows& from, Philox* random, float* actions, float* log_prob);
/// Within (-1, 1): see SquashedNormal for what happens at saturation.
void sample_squashed_normal(const NormalRows& from, Philox* random, float* actions, float* log_prob);

/// State-dependent noise under matrices that the caller holds: actions [rows, size].
struct NoiseRows {
  const float* mean;      // [rows, size]
  const float* latent;    // [rows, features]
  const float* variance;  // [features, size]: exp(2 log_std); compute it once an update
  const float* matrices;  // [rows, features, size] from draw_noise_matrix(); null: no noise, the mode
  std::int64_t rows = 0;
  std::int64_t size = 0;
  std::int64_t features = 0;
};
void sample_with_noise(const NoiseRows& from, float* actions, float* log_prob);

/// Draws one noise matrix: anew at the start of an episode and every so many steps (stable-baselines3's
/// sde_sample_freq), and after log_std has changed; `log_std` and `matrix` are [count] = [features * size].
void draw_noise_matrix(const float* log_std, std::int64_t count, Philox& random, float* matrix);

}  // namespace tandem::model
