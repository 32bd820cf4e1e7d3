// rl/policy/kernels/sequences/cell_kernels.h: one step of an LSTM's or a GRU's units, forward and backward, for each
// instruction set. The products with weights are BlockKernels::multiply() (row_layer.h).
//
// Rows lie one behind the other here, the numbers of a row side by side, and vectors go along the units: a step has as
// many rows as there are sequences at once, which may be few, and has all units. Each gate has `size` numbers in a row,
// padded to whole panels; what the padding holds stays zero. RecurrentCell::forward() is the definition.
//
// Threads: any; loops write to the caller's memory alone.
#pragma once
#include <cstdint>

#include "tandem/base/cpu.h"

namespace tandem::rl {

/// The rows of one step. Arrays of gates are [rows, gates_stride], all others [rows, stride], and `keep` is [rows]. An
/// LSTM has four gates (input, forget, proposed, output), a GRU three (reset, update, proposed).
template <typename Real>
struct CellStep {
  std::int64_t rows, size;  // size: padded
  std::int64_t gates_stride, stride;
  // Products with the input and with the output before, biases included. The forward pass writes the gates over the
  // first, and leaves the second.
  Real* of_input;
  Real* of_output;
  // The state before the step; memory is an LSTM's.
  const Real* output_before;
  const Real* memory_before;
  Real* output;       // may be next_output
  Real* tanh_memory;  // of an LSTM, for the backward pass
  // The state before the next step: the state after this one times `keep`, which is 0 where an episode begins.
  Real* next_output;
  Real* next_memory;
  const Real* keep;
};

/// The backward pass of a step, which begins with what the forward pass left.
template <typename Real>
struct CellStepBack {
  std::int64_t rows, size;
  std::int64_t gates_stride, stride;
  // Gates, then derivatives with respect to the products with the input.
  Real* of_input;
  // A GRU's products with the output before, then derivatives with respect to them. Those of an LSTM are those with
  // respect to the products with the input.
  Real* of_output;
  const Real* output_before;
  const Real* memory_before;
  const Real* tanh_memory;
  // Derivatives with respect to the step's output, but for the way through the next step.
  const Real* slope;
  // Derivatives with respect to the state after the step, by way of the next one, times `flow`. Then those with respect
  // to the state before it: of the output without what goes through of_output, which an LSTM leaves alone.
  Real* carried_output;
  Real* carried_memory;
  const Real* flow;  // 0 where none come from the next step
};

/// The loops of one instruction set, which are written once, in cell_kernels.inc. None of them reads a row's neighbour,
/// so a row's bits do not depend on the number of rows.
template <typename Real>
struct CellKernels {
  /// Forward: writes gates, output and the state before the next step.
  void (*lstm)(const CellStep<Real>& step);
  /// Backward, one step before the other: see CellStepBack for what is written where.
  void (*lstm_back)(const CellStepBack<Real>& step);
  /// A GRU has these, too, but it has neither memory nor tanh_memory: those pointers may be null.
  void (*gru)(const CellStep<Real>& step);
  void (*gru_back)(const CellStepBack<Real>& step);
};

/// Throws ConfigError when this processor does not have `set`. float64 has the portable loops under every set.
template <typename Real>
[[nodiscard]] const CellKernels<Real>& cell_kernels(InstructionSet set);
template <>
const CellKernels<float>& cell_kernels(InstructionSet set);
template <>
const CellKernels<double>& cell_kernels(InstructionSet set);

}  // namespace tandem::rl
