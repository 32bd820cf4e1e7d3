#include "tandem/rl/policy/kernels/bfloat16_layer.h"

#include <algorithm>

// The transposed factors come from the other rounding and a transposition of words, which moves two numbers at once:
// rows of pairs of W, transposed, have the pairs of W's transpose side by side.
namespace tandem::rl {
namespace {

constexpr std::int64_t kBlockPairs = kBlock / 2;

// Words as floats, whose bits a transposition only moves.
float* as_floats(AlignedArray<std::uint32_t>& words) { return reinterpret_cast<float*>(words.data()); }

// Words of a block for `features`, laid out either way.
constexpr std::int64_t words_of_block(std::int64_t features) { return 2 * pairs_of(features) * kBlock; }

}  // namespace

// Rows of the left factors are padded to whole tiles, and once more a tile for to_inputs(), which begins at any row.
Bfloat16Layer::Bfloat16Layer(std::int64_t inputs, std::int64_t outputs, Compute compute)
    : inputs_(inputs),
      outputs_(outputs),
      kernels_(bfloat16_kernels(compute)),
      floats_(block_kernels<float>(InstructionSet::kAvx512)),
      weight_(padded(outputs) * pairs_of(inputs)),
      transposed_weight_((padded(inputs) + kPanel) * pairs_of(outputs)),
      first_(std::max(words_of_block(std::max(inputs, outputs)), pairs_of(outputs) * padded(inputs))),
      second_(words_of_block(inputs)),
      transposed_(kBlock * (padded(inputs) + kPanel)) {}

void Bfloat16Layer::take(const float* weight) {
  kernels_.pair_columns(weight, inputs_, outputs_, inputs_, weight_.data(), pairs_of(inputs_));
  kernels_.pair_rows(weight, inputs_, outputs_, inputs_, first_.data(), padded(inputs_));
  floats_.transpose(as_floats(first_), padded(inputs_), pairs_of(outputs_), inputs_, as_floats(transposed_weight_),
                    pairs_of(outputs_));
}

void Bfloat16Layer::forward(const float* x, std::int64_t samples, const float* bias, float* to) {
  kernels_.pair_rows(x, kBlock, inputs_, samples, first_.data(), kBlock);
  kernels_.multiply({.rows = outputs_,
                     .columns = samples,
                     .pairs = pairs_of(inputs_),
                     .a = weight_.data(),
                     .a_stride = pairs_of(inputs_),
                     .b = first_.data(),
                     .b_stride = kBlock,
                     .c = to,
                     .c_stride = kBlock,
                     .start = Product<float>::Start::kBias,
                     .bias = bias});
}

void Bfloat16Layer::to_inputs(const float* gradient, std::int64_t samples, std::int64_t begin, std::int64_t count,
                              float* to, Product<float>::Start start) {
  kernels_.pair_rows(gradient, kBlock, outputs_, samples, first_.data(), kBlock);
  kernels_.multiply({.rows = count,
                     .columns = samples,
                     .pairs = pairs_of(outputs_),
                     .a = transposed_weight_.data() + begin * pairs_of(outputs_),
                     .a_stride = pairs_of(outputs_),
                     .b = first_.data(),
                     .b_stride = kBlock,
                     .c = to,
                     .c_stride = kBlock,
                     .start = start});
}

void Bfloat16Layer::add_to_weights(const float* gradient, const float* x, std::int64_t samples, float* sums,
                                   Product<float>::Start start) {
  const std::int64_t stride = padded(inputs_) + kPanel;  // apart from a multiple of the cache's page
  kernels_.pair_columns(gradient, kBlock, outputs_, samples, first_.data(), kBlockPairs);
  kernels_.pair_columns(x, kBlock, inputs_, samples, second_.data(), kBlockPairs);
  floats_.transpose(as_floats(second_), kBlockPairs, inputs_, pairs_of(samples), as_floats(transposed_), stride);
  kernels_.multiply({.rows = outputs_,
                     .columns = padded(inputs_),
                     .pairs = pairs_of(samples),
                     .a = first_.data(),
                     .a_stride = kBlockPairs,
                     .b = transposed_.data(),
                     .b_stride = stride,
                     .c = sums,
                     .c_stride = padded(inputs_),
                     .start = start});
}

}  // namespace tandem::rl
