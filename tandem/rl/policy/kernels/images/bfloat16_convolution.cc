#include "tandem/rl/policy/kernels/images/bfloat16_convolution.h"

namespace tandem::rl {
namespace {

// Words as the floats of a PatchProduct, which only moves them.
const float* moved(const AlignedArray<std::uint32_t>& words) { return reinterpret_cast<const float*>(words.data()); }

}  // namespace

Bfloat16Convolution::Bfloat16Convolution(Compute compute, const Sizes& sizes)
    : sizes_(sizes),
      kernels_(bfloat16_patches(compute)),
      packed_(sizes.rows / 2 * sizes.outputs),
      transposed_(sizes.places * sizes.outputs / 2 * sizes.inputs),
      in_(sizes.in),
      of_out_(sizes.out) {}

// Rows that are neighbours in the depth of a product become pairs.
void Bfloat16Convolution::take(const float* packed, const float* transposed) {
  const auto pair = [this](const float* from, std::int64_t rows, std::int64_t columns, std::uint32_t* to) {
    for (std::int64_t row = 0; row < rows; row += 2, from += 2 * columns, to += columns)
      kernels_.pair_lines(from, from + columns, columns, to);
  };
  pair(packed, sizes_.rows, sizes_.outputs, packed_.data());
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

// Each line of the value is paired with the one that the next line of results sees in its place. Where the number of
// lines is odd, the last one has no partner.
void Bfloat16Convolution::to_weights(const float* in, PatchProduct<float> product) {
  const std::int64_t paired = (sizes_.in - product.a_segment) / kPanel * kPanel, line = product.run * product.b_step;
  kernels_.pair_lines(in, in + product.a_segment, paired, in_.data());
  kernels_.pair_lines(in + paired, nullptr, sizes_.in - paired, in_.data() + paired);
  for (std::int64_t y = 0; y < product.segments; y += 2) {
    const float* const first = product.b + y * product.b_segment;
    kernels_.pair_lines(first, y + 1 < product.segments ? first + product.b_segment : nullptr, line,
                        of_out_.data() + y / 2 * line);
  }
  product.a = moved(in_) + (product.a - in);
  product.a_segment *= 2;
  product.b = moved(of_out_);
  product.b_segment = line;
  product.segments = (product.segments + 1) / 2;
  kernels_.multiply(product);
}

}  // namespace tandem::rl
