// rl/policy/kernels/sequences/recurrent_inference.h: one step of a RecurrentPolicy for acting, without autograd,
// dispatch or allocation: what MlpInference is for an MlpPolicy.
//
// RecurrentPolicy::forward_sequences() stays the definition; results agree with it to float rounding. A row's bits
// depend on its features, its state, the parameters and the instruction set alone: not on the number of rows.
//
// A step has few rows, so weights are read in panels that serve all of them (mlp_kernels.h), and nothing but the states
// is kept from step to step.
//
// Threads: single-thread; each rollout worker has its own. Ownership: the policy is not owned and must outlive it.
#pragma once
#include <cstdint>
#include <vector>

#include "tandem/rl/policy/kernels/mlp_inference.h"
#include "tandem/rl/policy/kernels/mlp_kernels.h"
#include "tandem/rl/policy/kernels/sequences/cell_kernels.h"
#include "tandem/rl/policy/recurrent_policy.h"

namespace tandem::rl {

/// Packs a weight and its bias from whatever device they lie on, in `groups` groups of as many outputs, each padded, as
/// the gates of a cell. `layer` has the inputs of the weight, and room for the padded groups.
void pack_groups(const at::Tensor& weight, const at::Tensor& bias, std::int64_t groups, PackedLayer& layer);

/// A packed copy of a policy's parameters and the loops over it.
class RecurrentInference {
 public:
  /// For up to `max_rows` rows a call. Throws ConfigError when this processor does not have `set`, and InvariantError
  /// for a policy that is not float32 or has a torso. Reads the parameters, as refresh() does.
  RecurrentInference(const RecurrentPolicy& policy, std::int64_t max_rows, InstructionSet set);

  /// Copies the parameters as they are now, from whatever device they lie on. To be called after every update of the
  /// parameters, before the next run().
  void refresh();

  /// The states of the rows, [rows, state size] each: read before the step, and written after it unless `after` is
  /// null. The two may be one.
  struct States {
    const float* before = nullptr;
    float* after = nullptr;
  };
  /// `features`: [rows, policy.features().size()]. A branch whose outputs are not asked for is not computed. Throws
  /// InvariantError when rows > max_rows.
  void run(const float* features, std::int64_t rows, const States& states, const MlpInference::Outputs& outputs);

  /// The lengths of a row of Outputs::head and of Outputs::latent: the outputs of the actor's cell are the latter.
  [[nodiscard]] std::int64_t head_size() const { return head_.outputs; }
  [[nodiscard]] std::int64_t latent_size() const { return head_.inputs; }

 private:
  // Hidden layers and cell of a branch, and for each row of memory the cell's state.
  struct Branch {
    const RecurrentBranch& module;
    std::vector<PackedLayer> hidden;
    PackedLayer of_input, of_output;
    std::int64_t units;  // of the cell, padded
    AlignedFloats output, memory;
  };
  // Layers without numbers, which refresh() fills, and memory for max_rows_ rows.
  [[nodiscard]] Branch make_branch(const RecurrentBranch& module) const;
  // One step; leaves the state after it in the branch. `states` are at the branch's first column.
  void step(Branch& branch, const float* features, std::int64_t rows, const States& states);
  // The part of a step that is products of matrices; the gates follow.
  void multiply(Branch& branch, const float* features, std::int64_t rows);

  const RecurrentPolicy& policy_;
  const std::int64_t max_rows_;
  const MlpKernels& kernels_;
  const CellKernels<float>& cells_;
  std::vector<Branch> branches_;
  PackedLayer head_, value_;
  // Memory for a step: two neighbouring hidden layers, the two products of a cell, tanh of its memory, and ones.
  AlignedFloats hidden_[2], of_input_, of_output_, tanh_memory_, keep_, result_;
};

}  // namespace tandem::rl
