// rl/algo/fused_sequences.h: sequences of a batch through a RecurrentPolicy and back without autograd, a block of
// sequences at a time: what fused_block.h is for policies that remember nothing.
//
//     sequences.begin(rows, states, places);
//     sequences.evaluate([&](std::int64_t row, const BlockSample& now) { ... });  // where all outputs are wanted first
//     sequences.differentiate([&](std::int64_t row, const BlockSample& now) {
//       return BlockSlopes{...};  // the derivatives of the loss with respect to the numbers of `now`
//     });
//
// A row of the batch is one step of one sequence, wherever it lies; a row of a block is time-major, as the network has
// it (sequence_branch.h). Losses are told rows of the batch, so those of policies without memory serve here as well.
//
// Steps of a burn-in and padding are rows like others: the network runs over them, and derivatives of zero go back from
// them. Leaving them out of the products would cost more than the products do.
//
// The bits depend on the sequences, in their order, the parameters and the instruction set alone.
//
// Threads: single-thread, the replica's. Ownership: the policy is not owned and must outlive it.
#pragma once
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tandem/rl/algo/fused_rows.h"
#include "tandem/rl/policy/kernels/choice_divergence.h"
#include "tandem/rl/policy/kernels/images/encoder_net.h"
#include "tandem/rl/policy/kernels/sequences/recurrent_gradient.h"

namespace tandem::rl {

/// Where the steps of sequences lie among the rows of a batch.
/// It is plain data, which a loss fills anew for each minibatch; vectors keep their memory.
/// Pointers are to the caller's memory, which must live until the last differentiate().
struct SequencePlaces {
  std::int64_t sequences = 0, steps = 0;
  std::int64_t acted = 0;            // steps from here on have an observation and no action
  std::vector<std::int64_t> rows;    // [sequences, steps]: the row of each step
  std::vector<std::int64_t> states;  // [sequences]: the row of the state before the first step
  // Lengths of the pieces of a sequence that gradients stay within; they add up to its steps.
  std::vector<std::int64_t> pieces;
  const std::uint8_t* done = nullptr;     // by row: not zero where an episode ended with the step
  const std::uint8_t* learned = nullptr;  // by row: not zero where the loss has the row; null: in all with an action
};

/// `Real`: of the parameters, the states and the columns, but for observations.
template <typename Real>
class FusedSequences {
 public:
  /// Whether there are such loops for actions of a family.
  [[nodiscard]] static bool has(ActionFamily family) {
    return family != ActionFamily::kStateDependentNoise && family != ActionFamily::kSquashedNormal;
  }

  /// Throws ConfigError when this processor does not have `set`. has() must be true for the policy's family.
  FusedSequences(const RecurrentPolicy& policy, InstructionSet set);

  /// Takes the parameters as they are now, and the sequences that are meant; gradients begin at zero. `rows` as
  /// FusedRows::begin(); `states` [.., state size]. All of them live until the last call for them. Throws
  /// InvariantError for columns of another kind.
  void begin(const ActedRows& rows, const at::Tensor& states, const SequencePlaces& places);

  /// As FusedBlock::refer_to(), by row of the batch.
  void refer_to(const Real* distributions) { reference_ = distributions; }
  /// Has evaluate() write the distribution of each row with an action, as FusedBlock::describe(), to [rows, head_size];
  /// null: nowhere.
  void describe_to(Real* distributions) { described_ = distributions; }

  /// Goes forward over all steps, and calls visit(row, sample) for each. Without an action a sample has a value alone.
  template <typename Visit>
  void evaluate(const Visit& visit) {
    for (std::int64_t block = 0; block < blocks_; ++block) {
      forward(block);
      for_samples([&](std::int64_t first, std::int64_t samples) {
        for (std::int64_t i = 0; i < samples; ++i) {
          if (described_ != nullptr && has_action(first + i)) describe(first + i, i);
          visit(row_of(first + i), sample(first, i));
        }
      });
    }
  }

  /// Goes forward and backward, and overwrites the .grad of all parameters with the sums. slopes_of(row, sample) is
  /// called for each row that the loss has.
  template <typename SlopesOf>
  void differentiate(const SlopesOf& slopes_of) {
    for (std::int64_t block = 0; block < blocks_; ++block) {
      forward(block);
      for_samples([&](std::int64_t first, std::int64_t samples) {
        for (std::int64_t i = 0; i < samples; ++i) {
          const bool counts = is_learned(first + i);
          const BlockSlopes slopes = counts ? slopes_of(row_of(first + i), sample(first, i)) : BlockSlopes{};
          of_log_prob_[i] = static_cast<Real>(slopes.log_prob);
          of_entropy_[i] = static_cast<Real>(slopes.entropy);
          of_divergence_[i] = static_cast<Real>(slopes.divergence);
          network_.value().row(first + i)[0] = static_cast<Real>(slopes.value);
        }
        actions_back(first, samples);
      });
      backward();
    }
    network_.finish();
    actions_.finish();
  }

 private:
  // Features and states of the block go to the network first. When all sequences are one block, differentiate() so
  // finds what evaluate() computed. Runs the network over a block, unless its outputs are there already.
  void forward(std::int64_t block);
  // The derivatives that were written, through the network; the block's outputs are gone then.
  void backward();
  // Fills keep_ and flow_ for the block at hand.
  void mark_starts();
  // The head's rows are transposed for them, since the loops of actions go along the samples.
  // Loads the actions of rows of the block, and computes their log-probabilities and entropies; and the way back.
  void actions_forward(std::int64_t first, std::int64_t samples);
  void actions_back(std::int64_t first, std::int64_t samples);
  // Writes the distribution of row `r` of the block, sample `i`.
  void describe(std::int64_t r, std::int64_t i);

  // Calls work(first, samples) for the rows of the block, kBlock at a time.
  template <typename Work>
  void for_samples(const Work& work) {
    for (std::int64_t first = 0; first < now_.rows(); first += kBlock) {
      const std::int64_t samples = std::min(kBlock, now_.rows() - first);
      actions_forward(first, samples);
      work(first, samples);
    }
  }
  // The row of the batch that is row `r` of the block.
  [[nodiscard]] std::int64_t row_of(std::int64_t r) const {
    const std::int64_t sequence = first_sequence_ + r % now_.sequences;
    return places_->rows[static_cast<std::size_t>(sequence * places_->steps + r / now_.sequences)];
  }
  // Rows are time-major, so those without an action come last.
  [[nodiscard]] bool has_action(std::int64_t r) const { return r < places_->acted * now_.sequences; }
  // Whether the loss has row `r` of the block.
  [[nodiscard]] bool is_learned(std::int64_t r) const {
    return has_action(r) && (places_->learned == nullptr || places_->learned[row_of(r)] != 0);
  }
  // The numbers of sample `i` of those that begin with row `first` of the block.
  [[nodiscard]] BlockSample sample(std::int64_t first, std::int64_t i) {
    return {actions_.log_prob()[i], actions_.entropy()[i], network_.value().row(first + i)[0],
            divergence_.divergence()[i]};
  }

  // Parameters are read at begin() and gradients are written at the end; in between the policy is not touched.
  const BlockKernels<Real>& kernels_;
  EncoderNet<Real> encoder_;  // without torsos, so it learns nothing
  FusedRows<Real> rows_;
  RecurrentGradient<Real> network_;
  ActionGradient<Real> actions_;
  const std::int64_t head_size_;
  ChoiceDivergence<Real> divergence_;
  // As refer_to() and describe_to() have them; null where nobody asks.
  const Real* reference_ = nullptr;
  Real* described_ = nullptr;
  const SequencePlaces* places_ = nullptr;
  const Real* states_ = nullptr;
  // The sequences are divided into blocks_ blocks of block_sequences_, of which the last may have fewer.
  std::int64_t blocks_ = 0, block_sequences_ = 0;
  std::int64_t held_ = -1;           // the block whose outputs are there, or -1
  std::int64_t first_sequence_ = 0;  // of that block
  SequenceBlock<Real> now_;
  std::vector<Real> keep_, flow_;  // of now_
  AlignedArray<Real> head_;        // [head size, kBlock]
  // Rows past the samples are set to zero by actions_back(), since kernels work on whole vectors.
  Real of_log_prob_[kBlock] = {}, of_entropy_[kBlock] = {}, of_divergence_[kBlock] = {};
};

extern template class FusedSequences<float>;
extern template class FusedSequences<double>;

}  // namespace tandem::rl
