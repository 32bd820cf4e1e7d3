#include "tandem/rl/policy/kernels/sequences/sequence_branch.h"

#include <algorithm>

#include "tandem/base/check.h"
#include "tandem/rl/policy/kernels/block_net.h"

// The plan of a block:
//   forward   hidden layers over all rows; the cell's products with their results over all rows; then step by step the
//             product with the outputs before, and the gates;
//   backward  step by step from the last: the gates' slopes, and the product that carries derivatives to the step
//             before; then the sums for the weights, and the hidden layers from the last down.
namespace tandem::rl {
namespace {

template <typename Real>
void grow(AlignedArray<Real>& array, std::int64_t count) {
  array = AlignedArray<Real>(count);
}

}  // namespace

template <typename Real>
SequenceBranch<Real>::SequenceBranch(const RecurrentBranch& branch, InstructionSet set)
    : kernels_(block_kernels<Real>(set)),
      cells_(cell_kernels<Real>(set)),
      kind_(branch.cell->kind()),
      activation_(branch.mlp->options().activation),
      size_(branch.cell->size()),
      units_(padded(size_)),
      state_size_(branch.cell->state_size()),
      input_(branch.cell->weight_ih(), branch.cell->bias_ih(), branch.cell->gates(), kernels_),
      recurrent_(branch.cell->weight_hh(), branch.cell->bias_hh(), branch.cell->gates(), kernels_),
      stride_(row_stride(size_)),
      gates_stride_(input_.width() + kPanel) {
  for (const torch::nn::Linear& linear : branch.mlp->layers())
    hidden_.push_back({.layer = RowLayer<Real>(linear->weight, linear->bias, 1, kernels_),
                       .output = AlignedArray<Real>(),
                       .before = AlignedArray<Real>()});
}

template <typename Real>
void SequenceBranch<Real>::begin() {
  for (Hidden& hidden : hidden_) hidden.layer.begin();
  input_.begin();
  recurrent_.begin();
}

// An array that grows begins at zero again, paddings included.
template <typename Real>
void SequenceBranch<Real>::reserve(std::int64_t rows, std::int64_t sequences) {
  if (rows <= reserved_rows_ && sequences <= reserved_sequences_) return;
  reserved_rows_ = rows = std::max(rows, reserved_rows_);
  reserved_sequences_ = sequences = std::max(sequences, reserved_sequences_);
  std::int64_t widest = 0;
  for (Hidden& hidden : hidden_) {
    grow(hidden.output, rows * hidden.stride());
    if (needs_argument(activation_)) grow(hidden.before, rows * hidden.stride());
    widest = std::max(widest, hidden.stride());
  }
  for (AlignedArray<Real>& each : of_hidden_) grow(each, rows * widest);
  grow(gates_, rows * gates_stride_);
  grow(products_, (is_lstm() ? sequences : rows) * gates_stride_);
  for (AlignedArray<Real>* each : {&output_, &slopes_}) grow(*each, rows * stride_);
  grow(output_before_, (rows + sequences) * stride_);
  grow(carried_output_, sequences * stride_);
  if (!is_lstm()) return;
  grow(tanh_memory_, rows * stride_);
  grow(memory_before_, (rows + sequences) * stride_);
  grow(carried_memory_, sequences * stride_);
}

// The first rows of the states before steps are those before step 0.
template <typename Real>
void SequenceBranch<Real>::set_state(std::int64_t s, const Real* state) {
  std::copy_n(state, size_, output_before_.data() + s * stride_);
  if (is_lstm()) std::copy_n(state + size_, size_, memory_before_.data() + s * stride_);
}

template <typename Real>
Real* SequenceBranch<Real>::argument_of(Hidden& hidden) const {
  return needs_argument(activation_) ? hidden.before.data() : hidden.output.data();
}

template <typename Real>
Rows<const Real> SequenceBranch<Real>::input(Rows<const Real> features) {
  if (hidden_.empty()) return features;
  return {hidden_.back().output.data(), hidden_.back().stride()};
}

template <typename Real>
Rows<Real> SequenceBranch<Real>::products(std::int64_t t, std::int64_t sequences) {
  return {products_.data() + (is_lstm() ? 0 : t * sequences * gates_stride_), gates_stride_};
}

template <typename Real>
void SequenceBranch<Real>::forward(Rows<const Real> features, const SequenceBlock<Real>& block) {
  const std::int64_t rows = block.rows(), sequences = block.sequences;
  Rows<const Real> x = features;
  for (Hidden& hidden : hidden_) {
    Real* const argument = argument_of(hidden);
    hidden.layer.forward(x, rows, {argument, hidden.stride()});
    kernels_.activate(activation_, argument, hidden.output.data(), rows * hidden.stride());
    x = {hidden.output.data(), hidden.stride()};
  }
  input_.forward(x, rows, {gates_.data(), gates_stride_});
  for (std::int64_t t = 0; t < block.steps; ++t) {
    const std::int64_t row = t * sequences, next = row + sequences;
    Real* const before = output_before_.data() + row * stride_;
    recurrent_.forward({before, stride_}, sequences, products(t, sequences));
    const CellStep<Real> step{.rows = sequences,
                              .size = units_,
                              .gates_stride = gates_stride_,
                              .stride = stride_,
                              .of_input = gates_.data() + row * gates_stride_,
                              .of_output = products(t, sequences).data,
                              .output_before = before,
                              .memory_before = memory_before_.data() + (is_lstm() ? row * stride_ : 0),
                              .output = output_.data() + row * stride_,
                              .tanh_memory = tanh_memory_.data() + (is_lstm() ? row * stride_ : 0),
                              .next_output = output_before_.data() + next * stride_,
                              .next_memory = memory_before_.data() + (is_lstm() ? next * stride_ : 0),
                              .keep = block.keep + next};
    (is_lstm() ? cells_.lstm : cells_.gru)(step);
  }
}

// The derivatives that reach the step before by way of this one: through the products and, of a GRU, past them.
template <typename Real>
void SequenceBranch<Real>::backward_steps(const SequenceBlock<Real>& block) {
  using Start = typename Product<Real>::Start;
  const std::int64_t sequences = block.sequences;
  for (std::int64_t t = block.steps - 1; t >= 0; --t) {
    const std::int64_t row = t * sequences;
    const CellStepBack<Real> step{.rows = sequences,
                                  .size = units_,
                                  .gates_stride = gates_stride_,
                                  .stride = stride_,
                                  .of_input = gates_.data() + row * gates_stride_,
                                  .of_output = products(t, sequences).data,
                                  .output_before = output_before_.data() + row * stride_,
                                  .memory_before = memory_before_.data() + (is_lstm() ? row * stride_ : 0),
                                  .tanh_memory = tanh_memory_.data() + (is_lstm() ? row * stride_ : 0),
                                  .slope = slopes_.data() + row * stride_,
                                  .carried_output = carried_output_.data(),
                                  .carried_memory = carried_memory_.data(),
                                  .flow = block.flow + row + sequences};
    (is_lstm() ? cells_.lstm_back : cells_.gru_back)(step);
    if (t == 0) return;
    const Real* const of_products = is_lstm() ? step.of_input : step.of_output;
    recurrent_.backward({of_products, gates_stride_}, sequences, {carried_output_.data(), stride_},
                        is_lstm() ? Start::kZero : Start::kKeep);
  }
}

// Nothing comes from behind the last step.
template <typename Real>
void SequenceBranch<Real>::backward(Rows<const Real> features, const SequenceBlock<Real>& block) {
  const std::int64_t rows = block.rows();
  std::fill_n(carried_output_.data(), block.sequences * stride_, Real{0});
  if (is_lstm()) std::fill_n(carried_memory_.data(), block.sequences * stride_, Real{0});
  backward_steps(block);
  const Rows<const Real> of_gates{gates_.data(), gates_stride_};
  const Rows<const Real> of_products = is_lstm() ? of_gates : Rows<const Real>{products_.data(), gates_stride_};
  recurrent_.add({output_before_.data(), stride_}, of_products, rows);
  input_.add(input(features), of_gates, rows);
  if (!hidden_.empty()) backward_hidden(features, rows);
}

// Derivatives with respect to a layer's result become those with respect to its argument in place.
template <typename Real>
void SequenceBranch<Real>::backward_hidden(Rows<const Real> features, std::int64_t rows) {
  using Start = typename Product<Real>::Start;
  const auto of_result = [this](std::size_t i) { return Rows<Real>{of_hidden_[i % 2].data(), hidden_[i].stride()}; };
  const std::size_t last = hidden_.size() - 1;
  input_.backward({gates_.data(), gates_stride_}, rows, of_result(last), Start::kZero);
  for (std::size_t i = hidden_.size(); i-- > 0;) {
    const Rows<Real> slopes = of_result(i);
    kernels_.multiply_by_slope(activation_, argument_of(hidden_[i]), slopes.data, rows * slopes.stride);
    const Rows<const Real> of_layer{slopes.data, slopes.stride};
    if (i == 0) return hidden_[i].layer.add(features, of_layer, rows);
    hidden_[i].layer.add({hidden_[i - 1].output.data(), hidden_[i - 1].stride()}, of_layer, rows);
    hidden_[i].layer.backward(of_layer, rows, of_result(i - 1), Start::kZero);
  }
}

template <typename Real>
void SequenceBranch<Real>::finish() const {
  for (const Hidden& hidden : hidden_) hidden.layer.finish();
  input_.finish();
  recurrent_.finish();
}

template class SequenceBranch<float>;
template class SequenceBranch<double>;

}  // namespace tandem::rl
