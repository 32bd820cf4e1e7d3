#include "tandem/model/norm.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/cpu.h"
#include "tandem/base/summation_tree.h"

namespace tandem::model {
namespace {

constexpr std::int64_t kLanes = 16;

// Compilers split these into whatever the machine has, element by element the same operations.
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));
template <typename T>
struct VectorOf {
  using Type __attribute__((vector_size(kLanes * sizeof(T)))) = T;
};

// Sums the squares of one block. Full vectors go to two sets of lanes in turn, the rest lane by lane, and lanes are
// added as a tree; every instruction set below makes these same operations, so the bits are the same.
template <typename T>
TANDEM_INLINE double sum_block(const T* data, std::int64_t count) {
  using Raw = typename VectorOf<T>::Type;
  // Two accumulators a lane hide the latency of the addition; which one an element goes to is fixed as well.
  Doubles sums[2] = {};
  std::int64_t at = 0;
  for (; at + 2 * kLanes <= count; at += 2 * kLanes) {
    for (int half = 0; half < 2; ++half) {
      Raw raw;
      std::memcpy(&raw, data + at + half * kLanes, sizeof(raw));
      const Doubles wide = __builtin_convertvector(raw, Doubles);
      sums[half] += wide * wide;
    }
  }
  double lanes[2 * kLanes];
  std::memcpy(lanes, sums, sizeof(lanes));
  for (std::int64_t lane = 0; at < count; ++at, ++lane) {
    const auto value = static_cast<double>(data[at]);
    lanes[lane] += value * value;
  }
  for (std::int64_t width = kLanes; width > 0; width /= 2) {
    for (std::int64_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

template <typename T>
double sum_block_baseline(const T* data, std::int64_t count) {
  return sum_block(data, count);
}

#if defined(__x86_64__)
template <typename T>
[[gnu::target("avx2")]] double sum_block_avx2(const T* data, std::int64_t count) {
  return sum_block(data, count);
}
template <typename T>
[[gnu::target("avx512f")]] double sum_block_avx512(const T* data, std::int64_t count) {
  return sum_block(data, count);
}
#endif

template <typename T>
using BlockSum = double (*)(const T*, std::int64_t);

// The widest instructions of this processor; asked for once, by sum_of_block().
template <typename T>
BlockSum<T> fastest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return sum_block_avx512<T>;
  if (__builtin_cpu_supports("avx2")) return sum_block_avx2<T>;
#endif
  return sum_block_baseline<T>;
}

std::int64_t blocks_of(const at::Tensor& flat) { return (flat.numel() + kNormBlock - 1) / kNormBlock; }

template <typename T>
double sum_of_block(const at::Tensor& flat, std::int64_t block) {
  static const BlockSum<T> sum = fastest<T>();
  const std::int64_t begin = block * kNormBlock;
  return sum(flat.const_data_ptr<T>() + begin, std::min(kNormBlock, flat.numel() - begin));
}

template <typename T>
void sum_blocks(const at::Tensor& flat, std::vector<double>& sums) {
  for (std::size_t b = 0; b < sums.size(); ++b) sums[b] = sum_of_block<T>(flat, static_cast<std::int64_t>(b));
}

// Adds what `sum_of` gives for each block along the tree.
template <typename SumOf>
double sum_along_tree(std::int64_t blocks, const SumOf& sum_of) {
  if (blocks == 0) return 0;
  return tree_sum(Range{0, static_cast<int>(blocks)}, sum_of, [](double left, double right) { return left + right; });
}

void require_flat(const at::Tensor& flat) {
  TANDEM_CHECK(flat.dim() == 1 && flat.is_contiguous() && flat.is_floating_point(),
               "a flat floating tensor is needed, got ", flat.sizes(), " ", flat.scalar_type());
}

// Sums blocks on other devices by torch's own operations, over shapes that do not depend on the tensor's size. The last
// block is padded with zeros, so that a block gives the same bits wherever it lies.
void sum_blocks_with_torch(const at::Tensor& flat, std::vector<double>& sums) {
  constexpr std::int64_t kAtOnce = 64;  // blocks; 32 MiB of float64
  const at::NoGradGuard no_grad;
  const std::int64_t count = flat.numel();
  for (std::int64_t begin = 0; begin < count; begin += kAtOnce * kNormBlock) {
    at::Tensor part = flat.narrow(0, begin, std::min(kAtOnce * kNormBlock, count - begin)).to(at::kDouble);
    const std::int64_t size = part.numel();
    if (size < kAtOnce * kNormBlock) part = at::constant_pad_nd(part, {0, kAtOnce * kNormBlock - size});
    const at::Tensor found = part.square_().view({kAtOnce, kNormBlock}).sum(1).cpu();
    std::copy_n(found.const_data_ptr<double>(), (size + kNormBlock - 1) / kNormBlock,
                sums.begin() + begin / kNormBlock);
  }
}

}  // namespace

double sum_of_blocks(std::span<const double> sums) {
  return sum_along_tree(std::ssize(sums), [&](int block) { return sums[static_cast<std::size_t>(block)]; });
}

// On the CPU half precision is widened to float32 first, which is exact.
std::vector<double> block_sums_of_squares(const at::Tensor& flat) {
  require_flat(flat);
  std::vector<double> sums(static_cast<std::size_t>(blocks_of(flat)));
  if (flat.is_cpu() && flat.scalar_type() == at::kFloat) {
    sum_blocks<float>(flat, sums);
  } else if (flat.is_cpu() && flat.scalar_type() == at::kDouble) {
    sum_blocks<double>(flat, sums);
  } else if (flat.is_cpu()) {
    sum_blocks<float>(flat.to(at::kFloat), sums);
  } else {
    sum_blocks_with_torch(flat, sums);
  }
  return sums;
}

// The sums of blocks take no memory for float32 and float64 on the CPU.
double sum_of_squares(const at::Tensor& flat) {
  require_flat(flat);
  const auto along_tree = [&](auto sum) {
    return sum_along_tree(blocks_of(flat), [&](int block) { return sum(flat, block); });
  };
  if (flat.is_cpu() && flat.scalar_type() == at::kFloat) return along_tree(sum_of_block<float>);
  if (flat.is_cpu() && flat.scalar_type() == at::kDouble) return along_tree(sum_of_block<double>);
  return sum_of_blocks(block_sums_of_squares(flat));
}

SumOfSquaresByParts::SumOfSquaresByParts(at::Tensor flat) : flat_(std::move(flat)) {
  missing_.resize(static_cast<std::size_t>(blocks_of(flat_)));
  sums_.resize(missing_.size());
  begin();
}

void SumOfSquaresByParts::begin() {
  for (std::size_t block = 0; block < missing_.size(); ++block)
    missing_[block] = std::min(kNormBlock, flat_.numel() - static_cast<std::int64_t>(block) * kNormBlock);
}

// Counts the elements that are still missing in each block, and sums runs of blocks that have become whole by one call.
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
