// rl/policy/kernels/mlp_inference.h: the forward pass of an MlpPolicy's layers for acting, without autograd, dispatch
// or allocation.
//
// A small network costs tens of microseconds through tensor operations, nearly all of it overhead; here the loops
// run on a packed copy of the parameters. MlpPolicy::forward stays the definition; results agree with it to
// float rounding. A row's bits depend on its features, the parameters and the instruction set alone: not on the number
// of rows.
//
// Threads: single-thread; each rollout worker has its own. Ownership: the policy is not owned and must outlive it.
#pragma once
#include <cstdint>
#include <vector>

#include "tandem/base/cpu.h"
#include "tandem/rl/policy/kernels/mlp_kernels.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {

/// A packed copy of a policy's parameters and the loops over it.
class MlpInference {
 public:
  /// For up to `max_rows` rows a call. Throws ConfigError when the policy is not float32, or this processor does not
  /// have `set`. Reads the parameters, as refresh() does.
  MlpInference(const MlpPolicy& policy, std::int64_t max_rows, InstructionSet set);

  /// Copies the parameters as they are now, from whatever device they lie on. To be called after every update of the
  /// parameters, before the next run().
  void refresh();

  /// The arrays that run() writes to; the caller owns them. An output that is null is not computed.
  struct Outputs {
    /// [rows, head_size()]: logits or mean, the first of the action parameters.
    float* head = nullptr;
    /// [rows].
    float* value = nullptr;
    /// [rows, latent_size()]: the inputs of the head, for state-dependent noise.
    float* latent = nullptr;
  };
  /// `features`: [rows, policy.encoder().size()]. Throws InvariantError when rows > max_rows.
  void run(const float* features, std::int64_t rows, const Outputs& outputs);

  /// The lengths of a row of Outputs::head and of Outputs::latent.
  [[nodiscard]] std::int64_t head_size() const { return actor_.back().outputs; }
  [[nodiscard]] std::int64_t latent_size() const { return actor_.back().inputs; }

 private:
  // Rows of floats that begin `stride` floats apart.
  struct Rows {
    const float* data;
    std::int64_t stride;
  };
  // Applies the layers begin .. end-1 of `net` to `x`, alternating between two scratch buffers, and returns the rows of
  // the last one.
  Rows apply(const Mlp& net, const std::vector<PackedLayer>& layers, std::size_t begin, std::size_t end, Rows x,
             std::int64_t rows, AlignedFloats* scratch);

  // The packed layers of each net; the trunk has none when trunks are separate.
  const MlpPolicy& policy_;
  std::int64_t max_rows_;
  const MlpKernels* kernels_;
  std::vector<PackedLayer> trunk_, actor_, critic_;
  // Activations of the trunk, and of the actor or critic after it: two each, since a layer reads one and writes the
  // other.
  AlignedFloats shared_[2], own_[2];
};

}  // namespace tandem::rl
