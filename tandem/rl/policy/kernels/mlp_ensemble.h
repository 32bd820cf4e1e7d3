// rl/policy/kernels/mlp_ensemble.h: forward and backward passes of several MLPs of one shape over the same rows,
// without autograd: the critics of an off-policy update, or its actor alone.
//
// The parameters are read where they lie at each call and gradients are written where their .grad lies; all working
// memory is taken when the object is made. Mlp::forward() and autograd are the definition, and results agree with
// theirs to rounding. The bits of results depend on the rows, in their order, the parameters, the instruction set and
// Compute alone: not on the number of threads, and a net's not on the other nets.
//
//     MlpEnsemble<float> critics({&q1, &q2}, {.max_rows = 256, .second_features = actions, .set = set});
//     const float* q = critics.forward({.first = observation, .second = action}, 256);  // [2, 256, 1]
//     ... of_q = the derivatives of the loss with respect to q
//     critics.backward(of_q, ParameterGradients::kOverwrite, InputGradient::kNone);      // the critics' loss
//     const float* of_action =                                                           // the actor's loss
//         critics.backward(of_q, ParameterGradients::kLeave, InputGradient::kSecond);
//
// Threads: single-thread, the replica's. Ownership: the nets are not owned and must outlive the object.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/base/cpu.h"
#include "tandem/rl/policy/kernels/bfloat16_kernels.h"
#include "tandem/rl/policy/kernels/block_net.h"
#include "tandem/rl/policy/mlp_policy.h"

namespace tandem::rl {

/// The part of the input that backward() differentiates with respect to.
enum class InputGradient { kNone, kWhole, kSecond };

/// `Real`: the dtype of the parameters, float or double.
template <typename Real>
class MlpEnsemble {
 public:
  struct Options {
    std::int64_t max_rows = 0;
    /// How many of the nets' inputs, the last ones, come from a second matrix; zero: there is none.
    std::int64_t second_features = 0;
    /// kForward: target networks, whose activations are not kept either.
    Passes passes = Passes::kForwardAndBackward;
    InstructionSet set = InstructionSet::kPortable;
    Compute compute = Compute::kFloat32;
  };

  /// `nets`: at least one, on the CPU and of `Real`, with equal Mlp::Options but for gains and at least one layer.
  /// Throws ConfigError when this processor does not have `set` or, for `compute`, what require_compute() asks for;
  /// InvariantError when nets differ in shape.
  MlpEnsemble(const std::vector<const Mlp*>& nets, const Options& options);
  MlpEnsemble(const MlpEnsemble&) = delete;
  MlpEnsemble& operator=(const MlpEnsemble&) = delete;

  /// One matrix [rows, features] or two that stand side by side, [rows, features - second_features] and
  /// [rows, second_features]; row-major without gaps. Read during forward() alone.
  struct Rows {
    const Real* first = nullptr;
    const Real* second = nullptr;
  };
  /// Runs all nets over `rows` rows, at least one. Returns [nets, rows, outputs], valid until the next forward().
  /// Throws InvariantError when rows > max_rows.
  const Real* forward(const Rows& input, std::int64_t rows);
  /// Runs some of the nets, in the order of `chosen`, as REDQ's targets need: returns [chosen, rows, outputs].
  /// backward() does not follow it.
  const Real* forward(const Rows& input, std::int64_t rows, std::span<const std::size_t> chosen);

  /// Differentiates a loss whose derivatives with respect to the outputs of the last forward() are given, [nets, rows,
  /// outputs], by the parameters and by the input, each where asked. It may be called several times for one forward();
  /// the parameters must still be the same. The gradient of the input is the sum over the nets, as they share it:
  /// returns [rows, features] or, for kSecond, [rows, second_features], valid until the next call; null for kNone.
  /// Throws InvariantError when a parameter has no dense .grad of its shape to write to, when there was no forward(),
  /// or for an object of Passes::kForward.
  const Real* backward(const Real* of_output, ParameterGradients parameters, InputGradient input);

  /// Numbers of a row of the input, both parts, and of a row of the output.
  [[nodiscard]] std::int64_t features() const { return nets_.front().inputs(); }
  [[nodiscard]] std::int64_t outputs() const { return nets_.front().outputs(); }

 private:
  // A part of the rows at hand.
  struct Block {
    std::int64_t number, first_row, samples;
    // Where the nets keep its activations.
    std::int64_t kept;
  };
  template <typename Work>
  void for_blocks(const Work& work) const;
  [[nodiscard]] BlockInput<Real> input(const Block& block) const;
  [[nodiscard]] Real* of_input(const Block& block) { return of_input_.data() + block.number * columns_of_block(); }
  [[nodiscard]] std::int64_t columns_of_block() const { return padded(features()) * kBlock; }
  void take(const Rows& input, std::int64_t rows);
  void take(const Rows& input, const Block& block);
  void run(BlockNet<Real>& net, Real* output);
  void take_derivatives(const Real* rows, const Block& block);
  void give(const Real* columns, const Block& block, std::int64_t width, Real* rows);

  const Options options_;
  const BlockKernels<Real>& kernels_;
  // Rows of the last forward(), and whether its activations are there for backward().
  std::int64_t rows_ = 0;
  bool can_go_back_ = false;
  std::vector<BlockNet<Real>> nets_;
  // The input of each block as rows, [blocks, kBlock, row_stride(features)], and transposed, [blocks, features,
  // kBlock].
  AlignedArray<Real> input_rows_, input_columns_;
  // [nets, max_rows, outputs].
  AlignedArray<Real> output_;
  // The derivatives of the block at hand, [outputs, kBlock].
  AlignedArray<Real> of_output_;
  // The gradient of the input, as blocks, [blocks, features, kBlock], and as the rows that backward() returns.
  AlignedArray<Real> of_input_, of_input_rows_;
  // Scratch for transposing the rows of a block, [kBlock, row_stride(features or outputs)].
  AlignedArray<Real> transposed_;
  BackwardScratch<Real> scratch_;
};

extern template class MlpEnsemble<float>;
extern template class MlpEnsemble<double>;

}  // namespace tandem::rl
