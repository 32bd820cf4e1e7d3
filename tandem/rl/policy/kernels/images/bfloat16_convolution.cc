#include "tandem/rl/policy/kernels/images/bfloat16_convolution.h"

namespace tandem::rl {
namespace {

using Sums = Bfloat16Patches::Sums;

// Words as the floats of a PatchProduct or of a transposition, which only move them.
const float* moved(const AlignedArray<std::uint32_t>& words) { return reinterpret_cast<const float*>(words.data()); }

std::int64_t pairs_of_lines(std::int64_t lines) { return (lines + 1) / 2; }

}  // namespace

// A line of derivatives that is padded with zeros sees patches beyond its own, and beyond the value's last.
Bfloat16Convolution::Bfloat16Convolution(Compute compute, const Sizes& sizes)
    : sizes_(sizes),
      kernels_(bfloat16_patches(compute)),
      floats_(block_kernels<float>(InstructionSet::kAvx512)),
      packed_(sizes.pieces * sizes.run / 2 * sizes.outputs),
      transposed_(sizes.places * sizes.outputs / 2 * sizes.inputs),
      in_(sizes.in + kPanel * (sizes.step + 1)),
      of_out_(sizes.out) {
  if (kernels_.sums == Sums::kInputsByOutputs) return;
  const std::int64_t words = pairs_of_lines(sizes.lines) * padded(sizes.line) * sizes.outputs;
  pairs_ = AlignedArray<std::uint32_t>(words);
  across_ = AlignedArray<std::uint32_t>(words);
}

// Rows that are neighbours in the depth of a product become pairs.
void Bfloat16Convolution::take(const float* packed, const float* transposed) {
  const auto pair = [this](const float* from, std::int64_t rows, std::int64_t columns, std::uint32_t* to) {
    for (std::int64_t row = 0; row < rows; row += 2, from += 2 * columns, to += columns)
      kernels_.pair_lines(from, from + columns, columns, to);
  };
  pair(packed, sizes_.pieces * sizes_.run, sizes_.outputs, packed_.data());
  if (transposed != nullptr) pair(transposed, sizes_.places * sizes_.outputs, sizes_.inputs, transposed_.data());
}

void Bfloat16Convolution::forward(const float* in, PatchProduct<float> product) {
  kernels_.pair_neighbours(in, sizes_.in, in_.data());
  product.a = moved(in_) + (product.a - in) / 2;
  product.b = moved(packed_);
  for (std::int64_t* step : {&product.run, &product.a_line, &product.a_row, &product.a_segment, &product.b_segment})
    *step /= 2;
  kernels_.multiply(product);
}

void Bfloat16Convolution::to_inputs(const float* of_out, std::int64_t place, PatchProduct<float> product) {
  if (place == 0) kernels_.pair_neighbours(of_out, sizes_.out, of_out_.data());
  product.a = moved(of_out_) + (product.a - of_out) / 2;
  product.b = moved(transposed_) + place * sizes_.outputs / 2 * sizes_.inputs;
  product.run = sizes_.outputs / 2;
  for (std::int64_t* step : {&product.a_line, &product.a_row}) *step /= 2;
  kernels_.multiply(product);
}

std::int64_t Bfloat16Convolution::sums() const {
  const std::int64_t run = kernels_.sums == Sums::kInputsByOutputs ? sizes_.run : padded(sizes_.run);
  return sizes_.pieces * run * sizes_.outputs;
}

std::int64_t Bfloat16Convolution::sum_of(std::int64_t k, std::int64_t o) const {
  if (kernels_.sums == Sums::kInputsByOutputs) return k * sizes_.outputs + o;
  const std::int64_t run = padded(sizes_.run);
  return (o * sizes_.pieces + k / sizes_.run) * run + k % sizes_.run;
}

// Pairs of two lines of derivatives, `line` words from pair to pair. Where the number of lines is odd, the last one has
// no partner.
void Bfloat16Convolution::pair_derivatives(const PatchProduct<float>& product, std::int64_t line, std::uint32_t* to) {
  for (std::int64_t y = 0; y < product.segments; y += 2, to += line) {
    const float* const first = product.b + y * product.b_segment;
    kernels_.pair_lines(first, y + 1 < product.segments ? first + product.b_segment : nullptr,
                        product.run * product.b_step, to);
  }
}

// Each line of the value is paired with the one that the next line of results sees in its place.
void Bfloat16Convolution::to_weights(const float* in, PatchProduct<float> product) {
  const std::int64_t paired = (sizes_.in - product.a_segment) / kPanel * kPanel;
  kernels_.pair_lines(in, in + product.a_segment, paired, in_.data());
  kernels_.pair_lines(in + paired, nullptr, sizes_.in - paired, in_.data() + paired);
  product.a = moved(in_) + (product.a - in);
  product.a_segment *= 2;
  if (kernels_.sums == Sums::kOutputsByInputs) return to_weights_by_outputs(product);
  const std::int64_t line = product.run * product.b_step;
  pair_derivatives(product, line, of_out_.data());
  product.b = moved(of_out_);
  product.b_segment = line;
  product.segments = pairs_of_lines(product.segments);
  kernels_.multiply(product);
}

// The factors of `product` in turned places, a piece of the patch at a time. Vectors go along the piece, so those that
// are no multiple of a panel add to a padding that nobody reads.
void Bfloat16Convolution::to_weights_by_outputs(const PatchProduct<float>& product) {
  const std::int64_t segments = pairs_of_lines(product.segments), run = padded(product.run);
  pair_derivatives(product, run * sizes_.outputs, pairs_.data());
  for (std::int64_t y = 0; y < segments; ++y) {
    floats_.transpose(moved(pairs_) + y * run * sizes_.outputs, sizes_.outputs, run, sizes_.outputs,
                      reinterpret_cast<float*>(across_.data()) + y * run, segments * run);
  }
  for (std::int64_t piece = 0; piece < sizes_.pieces; ++piece) {
    kernels_.multiply({.lines = 1,
                       .rows = sizes_.outputs,
                       .columns = padded(sizes_.run),
                       .segments = segments,
                       .run = run,
                       .a = moved(across_),
                       .a_line = 0,
                       .a_row = segments * run,
                       .a_segment = run,
                       .a_step = 1,
                       .b = product.a + piece * product.a_line,
                       .b_segment = product.a_segment,
                       .b_step = product.a_step,
                       .c = product.c + piece * padded(sizes_.run),
                       .c_line = 0,
                       .c_row = sizes_.pieces * padded(sizes_.run),
                       .start = product.start});
  }
}

}  // namespace tandem::rl
