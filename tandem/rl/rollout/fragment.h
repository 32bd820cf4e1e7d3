// rl/rollout/fragment.h: T steps of N environments, time-major, in memory that is reused for every rollout, and the
// advantages of these steps.
//
// Environments write their observations straight into the rows that the learner reads.
// Threads: single-thread, the replica's that owns the env group.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tandem/rl/policy/observation.h"

namespace tandem::rl {

/// How many states of a policy that remembers are kept.
struct KeptStates {
  std::int64_t sequences = 0;  // of a row
  std::int64_t size = 0;       // of a state; 0: the policy remembers nothing
};

/// All tensors are contiguous, on the CPU and made once. A fragment may be filled again and again; copying a Fragment
/// copies references to the same memory. Observations are as policies see them. Rows are steps of environments here:
/// observations and masks (uint8) are [T + 1, N, ...], and row T is what the next fragment starts with; actions (int64
/// or float32) are [T, N, elements], without the last dimension when it is 1 and discrete; log_prob [T, N] float32 is
/// under the policy that acted.
struct Fragment : ActedRows {
  /// Memory for `steps` steps of `rows` (environment, agent) pairs.
  Fragment(const Spec& spec, int steps, int rows, const KeptStates& states = {});

  int steps;  // T that were made: all that there is memory for, or fewer
  int rows;
  // A fragment of one row may have the steps of several environments, one behind the other: how many each of them has.
  // Empty in other fragments.
  std::vector<int> joined;
  // [T + 1, N] float32; row T bootstraps.
  at::Tensor value;
  // [T, N] float32, as the learner sees rewards: scaled, and with the bootstrap of truncated episodes.
  at::Tensor reward;
  // [T, N] uint8: 1 where the episode ended with this step.
  at::Tensor done;
  // [sequences, N, state size] float32: before the first step of each; see sequences.h; or undefined. Sequences of
  // joined environments are one behind the other, too, as many of each as of a row of its steps.
  at::Tensor state;
  // [T, N] float32, filled by compute_gae().
  at::Tensor advantage, value_target;

  /// Returns the part for the steps that were made, of a tensor [T, N, ...] or [T + 1, N, ...] of the fragment.
  [[nodiscard]] at::Tensor made(const at::Tensor& tensor) const { return tensor.narrow(0, 0, steps); }

  /// The observation of time `t` as tensors [N, ...]; views made once.
  [[nodiscard]] const std::vector<at::Tensor>& observation_at(int t) const { return at_[static_cast<std::size_t>(t)]; }

 private:
  // By time, by leaf. Making a view costs an allocation, so the views of all T + 1 times are kept.
  std::vector<std::vector<at::Tensor>> at_;
};

/// Generalised advantage estimation: fills `advantage` and `value_target` from reward, value and done. `value` row T
/// must hold the bootstrap value. Both factors lie within [0, 1].
///
/// Schulman et al., "High-dimensional continuous control using generalized advantage estimation" (2016), equations
/// 11-16:
///     delta_t = r_t + gamma * (1 - done_t) * V(s_{t+1}) - V(s_t)
///     A_t     = delta_t + gamma * lambda * (1 - done_t) * A_{t+1}
/// and the value target is A_t + V(s_t). An episode cut short by its time limit is done too, but gamma * V of its last
/// observation is part of its last reward (rollout_worker.h), so it is not taken for an end of the task.
void compute_gae(Fragment& fragment, double gamma, double lambda);

}  // namespace tandem::rl
