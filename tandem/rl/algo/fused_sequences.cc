#include "tandem/rl/algo/fused_sequences.h"

#include <type_traits>

namespace tandem::rl {
namespace {

// Two tiles of a product's rows. More sequences at once would only take more memory than the caches have.
constexpr std::int64_t kMostSequences = 12;
// Rows of a block whose sequences are long: they take some KiB each.
constexpr std::int64_t kMostRows = 4096;

// How many sequences of so many steps make a block.
std::int64_t most_sequences(std::int64_t steps) {
  return std::clamp<std::int64_t>(kMostRows / std::max<std::int64_t>(steps, 1), 1, kMostSequences);
}

}  // namespace

template <typename Real>
FusedSequences<Real>::FusedSequences(const RecurrentPolicy& policy, InstructionSet set)
    : kernels_(block_kernels<Real>(set)),
      encoder_(policy.encoder(), set, {}),
      rows_(policy),
      network_(policy, set),
      actions_(policy, policy.log_std(), set),
      head_size_(head_size(policy.spec().action)),
      divergence_(head_size_),
      head_(padded(head_size_) * kBlock) {}

template <typename Real>
void FusedSequences<Real>::begin(const ActedRows& rows, const at::Tensor& states, const SequencePlaces& places) {
  TANDEM_CHECK(states.dim() == 2 && states.size(1) == network_.state_size(), "states ", states.sizes());
  rows_.begin(rows);
  states_ = memory_of<Real>(states, "state");
  places_ = &places;
  const std::int64_t most = most_sequences(places.steps);
  blocks_ = (places.sequences + most - 1) / most;
  block_sequences_ = blocks_ == 0 ? 0 : (places.sequences + blocks_ - 1) / blocks_;
  held_ = -1;
  network_.begin();
  actions_.begin();
}

// Where episodes and pieces begin, for the steps of the block at hand.
template <typename Real>
void FusedSequences<Real>::mark_starts() {
  const std::int64_t sequences = now_.sequences;
  const auto places = static_cast<std::size_t>((now_.steps + 1) * sequences);
  keep_.assign(places, Real{1});
  for (std::int64_t r = sequences; r < now_.rows(); ++r) {
    if (places_->done[row_of(r - sequences)] != 0) keep_[static_cast<std::size_t>(r)] = 0;
  }
  flow_ = keep_;
  std::int64_t begin = 0;
  for (const std::int64_t length : places_->pieces) {
    begin += length;  // of the next piece, or behind the last step
    std::fill_n(flow_.begin() + begin * sequences, sequences, Real{0});
  }
  now_.keep = keep_.data();
  now_.flow = flow_.data();
}

template <typename Real>
void FusedSequences<Real>::forward(std::int64_t block) {
  if (held_ == block) return;
  held_ = block;
  first_sequence_ = block * block_sequences_;
  now_ = {.steps = places_->steps, .sequences = std::min(block_sequences_, places_->sequences - first_sequence_)};
  mark_starts();
  network_.reserve(now_.rows(), now_.sequences);
  for (std::int64_t s = 0; s < now_.sequences; ++s) {
    const std::int64_t state = places_->states[static_cast<std::size_t>(first_sequence_ + s)];
    network_.set_state(s, states_ + state * network_.state_size());
  }
  for (std::int64_t r = 0; r < now_.rows(); ++r) encoder_.forward(0, rows_.leaves_of(row_of(r)), network_.feature(r));
  network_.forward(now_);
}

// The head's rows as a block of samples. Rows without an action keep that of whatever sample was there before: nothing
// follows from it.
template <typename Real>
void FusedSequences<Real>::actions_forward(std::int64_t first, std::int64_t samples) {
  const Rows<Real> head = network_.head();
  kernels_.transpose(head.row(first), head.stride, samples, head_size_, head_.data(), kBlock);
  for (std::int64_t i = 0; i < samples; ++i) {
    if (!has_action(first + i)) continue;
    rows_.take_action(row_of(first + i), actions_, i);
    if (reference_ != nullptr) divergence_.refer(i, reference_ + row_of(first + i) * head_size_);
  }
  actions_.forward(head_.data(), nullptr, samples);
  if (reference_ != nullptr) divergence_.measure(head_.data(), samples);
}

// A row of the batch has its place whatever block it is computed in.
template <typename Real>
void FusedSequences<Real>::describe(std::int64_t r, std::int64_t i) {
  Real* const to = described_ + row_of(r) * head_size_;
  for (std::int64_t o = 0; o < head_size_; ++o) to[o] = head_.data()[o * kBlock + i];
}

template <typename Real>
void FusedSequences<Real>::actions_back(std::int64_t first, std::int64_t samples) {
  for (std::int64_t i = samples; i < padded(samples); ++i) of_log_prob_[i] = of_entropy_[i] = 0;
  actions_.backward(head_.data(), of_log_prob_, of_entropy_);
  if (reference_ != nullptr) divergence_.add(head_.data(), of_divergence_, samples);
  const Rows<Real> head = network_.head();
  kernels_.transpose(head_.data(), kBlock, head_size_, samples, head.row(first), head.stride);
}

// The results of forward() are overwritten.
template <typename Real>
void FusedSequences<Real>::backward() {
  network_.backward(now_);
  held_ = -1;
}

template class FusedSequences<float>;
template class FusedSequences<double>;

}  // namespace tandem::rl
