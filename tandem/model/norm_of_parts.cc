#include "tandem/model/norm_of_parts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/model/norm.h"

namespace tandem::model {

SumOfSquaresByParts::SumOfSquaresByParts(at::Tensor flat) : flat_(std::move(flat)) {
  const auto blocks = static_cast<std::size_t>((flat_.numel() + kNormBlock - 1) / kNormBlock);
  missing_.resize(blocks);
  sums_.resize(blocks);
  begin();
}

void SumOfSquaresByParts::begin() {
  for (std::size_t block = 0; block < missing_.size(); ++block)
    missing_[block] = std::min(kNormBlock, flat_.numel() - static_cast<std::int64_t>(block) * kNormBlock);
}

void SumOfSquaresByParts::take(std::int64_t begin, std::int64_t end) {
  TANDEM_CHECK(begin >= 0 && end <= flat_.numel(), "elements ", begin, " to ", end, " of ", flat_.numel());
  std::int64_t first_whole = -1;  // of a run of blocks that are all there now
  for (std::int64_t block = begin / kNormBlock; block * kNormBlock < end; ++block) {
    std::int64_t& missing = missing_[static_cast<std::size_t>(block)];
    missing -= std::min(end, (block + 1) * kNormBlock) - std::max(begin, block * kNormBlock);
    TANDEM_CHECK(missing >= 0, "elements ", begin, " to ", end, " come twice");
    if (missing == 0 && first_whole < 0) first_whole = block;
    if (missing > 0 && first_whole >= 0) sum_blocks(std::exchange(first_whole, -1), block);
  }
  if (first_whole >= 0) sum_blocks(first_whole, (end + kNormBlock - 1) / kNormBlock);
}

void SumOfSquaresByParts::sum_blocks(std::int64_t first, std::int64_t last) {
  const std::int64_t begin = first * kNormBlock, end = std::min(last * kNormBlock, flat_.numel());
  std::ranges::copy(block_sums_of_squares(flat_.narrow(0, begin, end - begin)), sums_.begin() + first);
}

double SumOfSquaresByParts::sum() const {
  TANDEM_CHECK(std::ranges::all_of(missing_, [](std::int64_t missing) { return missing == 0; }),
               "a sum of squares of a vector that is not whole");
  return sum_of_blocks(sums_);
}

}  // namespace tandem::model
