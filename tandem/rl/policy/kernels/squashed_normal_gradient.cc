#include "tandem/rl/policy/kernels/squashed_normal_gradient.h"

#include <algorithm>

#include "tandem/base/check.h"

// Rows are turned into blocks of columns, on which the loops work, and back. A block has columns for the means, for the
// numbers for log_std, for the noise and for the actions, `size` each; they stay for backward().
namespace tandem::rl {
namespace {

// The columns of a block: the first of each kind.
template <typename Real>
struct Columns {
  Columns(Real* block, std::int64_t size)
      : mean(block), log_std(mean + size * kBlock), noise(log_std + size * kBlock), action(noise + size * kBlock) {}
  Real *mean, *log_std, *noise, *action;
};

constexpr std::int64_t kKindsOfColumns = 4;

}  // namespace

template <typename Real>
SquashedNormalGradient<Real>::SquashedNormalGradient(std::int64_t size, std::int64_t max_rows, const LogStdRange& range,
                                                     InstructionSet set)
    : kernels_(block_kernels<Real>(set)),
      size_(size),
      max_rows_(max_rows),
      range_(range),
      columns_(blocks_of(max_rows) * kKindsOfColumns * size * kBlock),
      action_(max_rows * size),
      log_prob_(blocks_of(max_rows) * kBlock),
      of_head_(2 * max_rows * size),
      of_action_(kBlock),
      of_log_prob_(kBlock) {
  TANDEM_CHECK(size > 0 && max_rows > 0, "actions of ", size, " components for ", max_rows, " rows");
}

template <typename Real>
Real* SquashedNormalGradient<Real>::block_at(std::int64_t row) {
  return columns_.data() + row * kKindsOfColumns * size_;
}

template <typename Real>
SquashBlock<Real> SquashedNormalGradient<Real>::component(std::int64_t row, std::int64_t j) {
  const Columns<Real> all(block_at(row), size_);
  return {.samples = padded(std::min(kBlock, rows_ - row)),
          .range = range_,
          .mean = all.mean + j * kBlock,
          .log_std = all.log_std + j * kBlock,
          .noise = all.noise + j * kBlock,
          .action = all.action + j * kBlock,
          .log_prob = log_prob_.data() + row};
}

// The columns beyond the rows of a short block hold finite numbers, zeros or those of earlier rows.
template <typename Real>
void SquashedNormalGradient<Real>::forward(const Real* head, const Real* noise, std::int64_t rows) {
  TANDEM_CHECK(rows > 0 && rows <= max_rows_, rows, " rows of at most ", max_rows_);
  rows_ = rows;
  std::fill_n(log_prob_.data(), padded(rows), Real{0});
  for (std::int64_t first = 0; first < rows; first += kBlock) {
    const std::int64_t samples = std::min(kBlock, rows - first);
    const Columns<Real> to(block_at(first), size_);
    for (std::int64_t i = 0; i < samples; ++i) {
      const Real* const row = head + (first + i) * 2 * size_;
      for (std::int64_t j = 0; j < size_; ++j) {
        to.mean[j * kBlock + i] = row[j];
        to.log_std[j * kBlock + i] = row[size_ + j];
        to.noise[j * kBlock + i] = noise[(first + i) * size_ + j];
      }
    }
    for (std::int64_t j = 0; j < size_; ++j) {
      kernels_.squash(component(first, j));
      for (std::int64_t i = 0; i < samples; ++i) action_.data()[(first + i) * size_ + j] = to.action[j * kBlock + i];
    }
  }
}

template <typename Real>
const Real* SquashedNormalGradient<Real>::backward(const Real* of_action, const Real* of_log_prob) {
  TANDEM_CHECK(rows_ > 0, "backward() without a forward() to follow");
  for (std::int64_t first = 0; first < rows_; first += kBlock) {
    const std::int64_t samples = std::min(kBlock, rows_ - first);
    const Columns<Real> at(block_at(first), size_);
    std::copy_n(of_log_prob + first, samples, of_log_prob_.data());
    for (std::int64_t j = 0; j < size_; ++j) {
      for (std::int64_t i = 0; i < samples; ++i) of_action_.data()[i] = of_action[(first + i) * size_ + j];
      kernels_.squash_back(component(first, j), of_action_.data(), of_log_prob_.data());
      for (std::int64_t i = 0; i < samples; ++i) {
        Real* const row = of_head_.data() + (first + i) * 2 * size_;
        row[j] = at.mean[j * kBlock + i];
        row[size_ + j] = at.log_std[j * kBlock + i];
      }
    }
  }
  rows_ = 0;
  return of_head_.data();
}

template class SquashedNormalGradient<float>;
template class SquashedNormalGradient<double>;

}  // namespace tandem::rl
