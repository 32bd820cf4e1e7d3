#include "tandem/rl/algo/dqn/softmax_rows.h"

#include <algorithm>

#include "tandem/rl/policy/kernels/block_net.h"

namespace tandem::rl {

// The loops are those of PPO's choices, of which one has to be taken: none is, and its place says so.
SoftmaxRows::SoftmaxRows(std::int64_t options, InstructionSet set)
    : kernels_(block_kernels<float>(set)),
      options_(options),
      rows_(kBlock * row_stride(options)),
      columns_(padded(options) * kBlock),
      taken_(kBlock),
      log_prob_(kBlock),
      entropy_(kBlock),
      minus_one_(kBlock),
      zero_(kBlock) {
  std::fill_n(taken_.data(), kBlock, -1.0F);
  std::fill_n(minus_one_.data(), kBlock, -1.0F);
}

void SoftmaxRows::give(std::int64_t samples, float* to) {
  const std::int64_t stride = row_stride(options_);
  kernels_.transpose(columns_.data(), kBlock, options_, samples, rows_.data(), stride);
  for (std::int64_t i = 0; i < samples; ++i) std::copy_n(rows_.data() + i * stride, options_, to + i * options_);
}

void SoftmaxRows::probabilities(const float* logits, std::int64_t rows, float* to) { run(logits, rows, nullptr, to); }

// The derivative of minus the taken option's log-probability is its probability, less 1 where it was taken; none was.
void SoftmaxRows::run(const float* logits, std::int64_t rows, float* logarithms, float* probabilities) {
  const std::int64_t stride = row_stride(options_);
  for (std::int64_t first = 0; first < rows; first += kBlock) {
    const std::int64_t samples = std::min(kBlock, rows - first), at = first * options_;
    for (std::int64_t i = 0; i < samples; ++i)
      std::copy_n(logits + at + i * options_, options_, rows_.data() + i * stride);
    kernels_.transpose(rows_.data(), stride, samples, options_, columns_.data(), kBlock);
    const ChoiceBlock<float> block{.options = options_,
                                   .samples = padded(samples),
                                   .logits = columns_.data(),
                                   .allowed = nullptr,
                                   .taken = taken_.data(),
                                   .log_prob = log_prob_.data(),
                                   .entropy = entropy_.data()};
    kernels_.choose(block);
    if (logarithms != nullptr) give(samples, logarithms + at);
    if (probabilities == nullptr) continue;
    kernels_.choose_back(block, minus_one_.data(), zero_.data());
    give(samples, probabilities + at);
  }
}

}  // namespace tandem::rl
