#include "tandem/rl/policy/kernels/bfloat16_kernels.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/policy/kernels/mlp_ensemble.h"
#include "tandem/rl/policy/kernels/testing/computes_here.h"

namespace tandem::rl {
namespace {

float number_of(std::uint32_t bits) { return std::bit_cast<float>(bits << 16U); }

struct TileShape;
struct TileExtent {
  int rows = 16, words = 16;
};

// The tiles of AMX as arrays. Nothing beyond a tile's extent is read or written, as in AMX.
struct ArrayTiles {
  static inline std::uint32_t words[8][16][16];
  static inline TileExtent extents[8];

  static void configure(const TileShape& shape);

  template <int I>
  static void zero() {
    std::memset(words[I], 0, sizeof words[I]);
  }
  template <int I>
  static void load(const void* from, std::int64_t bytes) {
    zero<I>();
    for (int row = 0; row < extents[I].rows; ++row) {
      const char* const line = static_cast<const char*>(from) + row * bytes;
      std::memcpy(words[I][row], line, static_cast<std::size_t>(extents[I].words) * 4);
    }
  }
  template <int I>
  static void store(void* to, std::int64_t bytes) {
    for (int row = 0; row < extents[I].rows; ++row) {
      char* const line = static_cast<char*>(to) + row * bytes;
      std::memcpy(line, words[I][row], static_cast<std::size_t>(extents[I].words) * 4);
    }
  }
  template <int C, int A, int B>
  static void dot() {
    for (int m = 0; m < 16; ++m) {
      for (int n = 0; n < 16; ++n) {
        float sum = std::bit_cast<float>(words[C][m][n]);
        for (int k = 0; k < 16; ++k) {
          const std::uint32_t a = words[A][m][k], b = words[B][k][n];
          sum += number_of(a & 0xffffU) * number_of(b & 0xffffU) + number_of(a >> 16U) * number_of(b >> 16U);
        }
        words[C][m][n] = std::bit_cast<std::uint32_t>(sum);
      }
    }
  }
};

#include "tandem/rl/policy/kernels/bfloat16_tiles.inc"
//
#include "tandem/rl/policy/kernels/images/patch_tiles.inc"

void ArrayTiles::configure(const TileShape& shape) {
  const auto of = [](std::int64_t rows, std::int64_t words) {
    return TileExtent{static_cast<int>(rows), static_cast<int>(words)};
  };
  const std::int64_t parts[2] = {shape.upper, shape.lower};
  for (int part = 0; part < 2; ++part) {
    extents[2 * part] = extents[2 * part + 1] = of(parts[part], 16);
    extents[4 + part] = of(parts[part], shape.depth);
    extents[6 + part] = of(shape.depth, 16);
  }
  std::memset(words, 0xff, sizeof words);  // what they held is lost
}

at::Tensor rounded(const at::Tensor& x) { return x.to(at::kBFloat16).to(at::kDouble); }

// Words that hold the numbers of neighbouring columns, or of neighbouring rows, as the header says.
std::vector<std::uint32_t> words_of(const at::Tensor& x, std::int64_t rows, std::int64_t stride, bool by_columns) {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(rows * stride), 0);
  const at::Tensor numbers = x.to(at::kBFloat16).to(at::kFloat).contiguous();
  for (std::int64_t r = 0; r < x.size(0); ++r) {
    for (std::int64_t c = 0; c < x.size(1); ++c) {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(numbers[r][c].item<float>()) >> 16U;
      const std::int64_t at = by_columns ? r * stride + c / 2 : r / 2 * stride + c;
      words[static_cast<std::size_t>(at)] |= bits << ((by_columns ? c : r) % 2 == 0 ? 0U : 16U);
    }
  }
  return words;
}

// A product of odd shape from each of its starts, against float64.
void expect_product(void (*multiply)(const PairProduct&), std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  SCOPED_TRACE(concat(rows, " x ", columns, " x ", depth));
  const at::Tensor a = at::randn({rows, depth}), b = at::randn({depth, columns}), bias = at::randn({rows});
  const std::int64_t pairs = pairs_of(depth);
  const std::vector<std::uint32_t> left = words_of(a, padded(rows) + kPanel, pairs, true);
  const std::vector<std::uint32_t> right = words_of(b, pairs, columns, false);
  const at::Tensor product = at::mm(rounded(a), rounded(b));
  using Start = Product<float>::Start;
  for (const Start start : {Start::kZero, Start::kBias, Start::kKeep}) {
    at::Tensor c = at::full({padded(rows) + kPanel, columns}, 3.0F);
    multiply({.rows = rows,
              .columns = columns,
              .pairs = pairs,
              .a = left.data(),
              .a_stride = pairs,
              .b = right.data(),
              .b_stride = columns,
              .c = c.mutable_data_ptr<float>(),
              .c_stride = columns,
              .start = start,
              .bias = bias.const_data_ptr<float>()});
    at::Tensor expected = product;
    if (start == Start::kBias) expected = expected + bias.unsqueeze(1);
    if (start == Start::kKeep) expected = expected + 3;
    EXPECT_LE((c.narrow(0, 0, rows) - expected).abs().max().item<double>(), 1e-4) << static_cast<int>(start);
    EXPECT_EQ(c.narrow(0, padded(rows), kPanel).sub(3).abs().max().item<float>(), 0) << "written beyond its rows";
  }
}

void expect_products(void (*multiply)(const PairProduct&)) {
  at::manual_seed(3);
  expect_product(multiply, 1, 16, 2);
  expect_product(multiply, 17, 48, 33);
  expect_product(multiply, 32, 64, 64);
  expect_product(multiply, 45, 80, 130);
}

TEST(Bfloat16KernelsTest, ProductsAreThoseOfTheRoundedNumbers) {
  for (const Compute each : rl::testing::computes_here()) expect_products(bfloat16_kernels(each).multiply);
}

TEST(Bfloat16KernelsTest, ProductsInTilesAreThoseOfTheRoundedNumbers) {
  for (TileExtent& extent : ArrayTiles::extents) extent = {};
  expect_products(multiply_in_tiles<ArrayTiles>);
}

const float* moved(const std::vector<std::uint32_t>& words) { return reinterpret_cast<const float*>(words.data()); }

// A product of `lines` x `rows` patches, two segments of `run` words each with a gap between them, and 80 columns in
// memory of which `columns` are asked for, against float64.
void expect_patches(void (*multiply)(const PatchProduct<float>&), std::int64_t lines, std::int64_t rows,
                    std::int64_t columns, std::int64_t run) {
  SCOPED_TRACE(concat(lines, " x ", rows, " x ", columns, ", ", run, " words"));
  using Product = PatchProduct<float>;
  constexpr std::int64_t kColumns = 80, kGap = 3, kSegments = 2;
  const std::int64_t line = (rows + 2) * run, numbers = 2 * (lines * line + kSegments * (run + kGap));
  const at::Tensor values = at::randn({1, numbers}), b = at::randn({2 * kSegments * run, kColumns});
  const at::Tensor bias = at::randn({kColumns}), seen = rounded(values)[0], right = rounded(b).narrow(1, 0, columns);
  const std::vector<std::uint32_t> left = words_of(values, 1, numbers / 2, true);
  const std::vector<std::uint32_t> weights = words_of(b, kSegments * run, kColumns, false);
  std::vector<at::Tensor> patches;
  for (std::int64_t i = 0; i < lines * rows; ++i) {
    const std::int64_t first = 2 * (i / rows * line + i % rows * run);
    patches.push_back(at::cat({seen.narrow(0, first, 2 * run), seen.narrow(0, first + 2 * (run + kGap), 2 * run)}));
  }
  const at::Tensor product = at::mm(at::stack(patches), right);
  for (const auto start : {Product::Start::kZero, Product::Start::kBias, Product::Start::kKeep}) {
    for (const auto finish : {Product::Finish::kStore, Product::Finish::kRectify}) {
      at::Tensor c = at::full({lines * rows + 1, kColumns}, 3.0F);
      multiply({.lines = lines,
                .rows = rows,
                .columns = columns,
                .segments = kSegments,
                .run = run,
                .a = moved(left),
                .a_line = line,
                .a_row = run,
                .a_segment = run + kGap,
                .a_step = 1,
                .b = moved(weights),
                .b_segment = run * kColumns,
                .b_step = kColumns,
                .c = c.mutable_data_ptr<float>(),
                .c_line = rows * kColumns,
                .c_row = kColumns,
                .start = start,
                .bias = bias.const_data_ptr<float>(),
                .finish = finish});
      at::Tensor expected = product;
      if (start == Product::Start::kBias) expected = expected + bias.narrow(0, 0, columns);
      if (start == Product::Start::kKeep) expected = expected + 3;
      if (finish == Product::Finish::kRectify) expected = expected.clamp_min(0);
      const at::Tensor within = c.narrow(0, 0, lines * rows);
      EXPECT_LE((within.narrow(1, 0, columns) - expected).abs().max().item<double>(), 1e-4);
      EXPECT_EQ(within.narrow(1, columns, kColumns - columns).sub(3).abs().max().item<float>(), 0) << "beyond columns";
      EXPECT_EQ(c[lines * rows].sub(3).abs().max().item<float>(), 0) << "beyond rows";
    }
  }
}

// Lines of one tile and of several, of equal and of unequal rows, in even and in odd number.
void expect_patch_products(void (*multiply)(const PatchProduct<float>&)) {
  at::manual_seed(4);
  expect_patches(multiply, 1, 1, 16, 1);
  expect_patches(multiply, 5, 7, 64, 40);
  expect_patches(multiply, 4, 20, 48, 4);
  expect_patches(multiply, 3, 17, 32, 32);
  expect_patches(multiply, 2, 46, 16, 13);
}

TEST(Bfloat16KernelsTest, PatchesAreThoseOfTheRoundedNumbers) {
  for (const Compute each : rl::testing::computes_here()) expect_patch_products(bfloat16_patches(each).multiply);
}

TEST(Bfloat16KernelsTest, PatchesInTilesAreThoseOfTheRoundedNumbers) {
  expect_patch_products(multiply_patches_in_tiles<ArrayTiles>);
}

TEST(Bfloat16KernelsTest, PairsAreRoundedAsTorchDoes) {
  for (const Compute each : rl::testing::computes_here()) {
    const at::Tensor x = at::randn({37, 45}) * 100;
    const float* from = x.const_data_ptr<float>();
    std::vector<std::uint32_t> columns(37 * 32, 7), rows(32 * 48, 7);
    bfloat16_kernels(each).pair_columns(from, 45, 37, 45, columns.data(), 32);
    bfloat16_kernels(each).pair_rows(from, 45, 37, 45, rows.data(), 48);
    EXPECT_EQ(columns, words_of(x, 37, 32, true));
    EXPECT_EQ(rows, words_of(x, 32, 48, false));
  }
}

TEST(Bfloat16KernelsTest, WhatTheProcessorLacksIsRefused) {
  EXPECT_THROW(require_compute(Compute::kBfloat16, InstructionSet::kPortable), ConfigError);
  EXPECT_NO_THROW(require_compute(Compute::kFloat32, InstructionSet::kPortable));
  EXPECT_EQ(compute("bfloat16_tiles"), Compute::kBfloat16Tiles);
  EXPECT_THROW((void)compute("float16"), ConfigError);
}

// Smooth nets, whose units do not switch by rounding, of a shape whose rows, features and units are no multiples of
// anything, and whose last layer stays float32.
struct RoundedNets {
  explicit RoundedNets(Mlp::Norm norm) {
    at::manual_seed(5);
    for (const std::uint64_t seed : {1, 2}) {
      nets.push_back(
          std::make_shared<Mlp>(Mlp::Options{.sizes = {41, 72, 33, 3}, .activation = Activation::kSilu, .norm = norm},
                                at::detail::createCPUGenerator(seed)));
      for (const at::Tensor& parameter : nets.back()->parameters()) {
        at::Tensor held = parameter;
        held.mutable_grad() = at::zeros_like(held);
      }
    }
  }
  std::vector<std::shared_ptr<Mlp>> nets;
  at::Tensor input = at::randn({83, 41}), of_output = at::randn({2, 83, 3});
};

double gap(const float* got, const at::Tensor& expected) {
  const at::Tensor wanted = expected.contiguous();
  double most = 0;
  for (std::int64_t i = 0; i < wanted.numel(); ++i)
    most = std::max(most, static_cast<double>(std::abs(got[i] - wanted.const_data_ptr<float>()[i])));
  return most / wanted.abs().max().item<double>();
}

// The largest difference relative to the largest number: bfloat16 has 8 bits.
TEST(Bfloat16KernelsTest, PassesStayNearThoseOfFloat32) {
  at::set_num_threads(1);
  for (const Compute each : rl::testing::computes_here()) {
    for (const Mlp::Norm norm : {Mlp::Norm::kNone, Mlp::Norm::kLayer}) {
      const RoundedNets with(norm);
      const at::Tensor x = with.input.clone().requires_grad_();
      const at::Tensor output = at::stack({with.nets[0]->forward(x), with.nets[1]->forward(x)});
      torch::autograd::backward({(output * with.of_output).sum()}, {});
      std::vector<at::Tensor> expected;
      for (const auto& net : with.nets) {
        for (const at::Tensor& parameter : net->parameters()) expected.push_back(parameter.grad().clone());
      }
      const at::Tensor first = with.input.narrow(1, 0, 36).contiguous(),
                       second = with.input.narrow(1, 36, 5).contiguous();
      const float* of_output = with.of_output.const_data_ptr<float>();
      MlpEnsemble<float> ensemble(
          {with.nets[0].get(), with.nets[1].get()},
          {.max_rows = 83, .second_features = 5, .set = InstructionSet::kAvx512, .compute = each});
      const float* got =
          ensemble.forward({.first = first.const_data_ptr<float>(), .second = second.const_data_ptr<float>()}, 83);
      EXPECT_LE(gap(got, output.detach()), 2e-2);
      const float* of_second = ensemble.backward(of_output, ParameterGradients::kLeave, InputGradient::kSecond);
      EXPECT_LE(gap(of_second, x.grad().narrow(1, 36, 5)), 2e-2);
      const float* of_input = ensemble.backward(of_output, ParameterGradients::kOverwrite, InputGradient::kWhole);
      EXPECT_LE(gap(of_input, x.grad()), 2e-2);
      std::size_t i = 0;
      for (const auto& net : with.nets) {
        for (const at::Tensor& parameter : net->parameters()) {
          EXPECT_LE(gap(parameter.grad().const_data_ptr<float>(), expected[i]), 2e-2) << i;
          ++i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem::rl
