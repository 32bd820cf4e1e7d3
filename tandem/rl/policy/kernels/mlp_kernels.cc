// The portable loops, and the choice between all sets. Four floats at a time, by the vector extension of GCC and Clang:
// SSE2 on x86, NEON on Arm. Products are rounded before they are added, since not every processor can fuse the two.
#include "tandem/rl/policy/kernels/mlp_kernels.h"

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <limits>

namespace tandem::rl {
namespace {

struct Set {
  using Register __attribute__((vector_size(16))) = float;
  using Integers __attribute__((vector_size(16))) = std::int32_t;
  static constexpr int kRows = 2, kPanels = 1;
  static constexpr int kTileRows = 6, kTileColumns = 2;
  static Register load(const float* p) {
    Register a;
    std::memcpy(&a, p, sizeof a);
    return a;
  }
  static void store(float* p, Register a) { std::memcpy(p, &a, sizeof a); }
  static Register set(float a) { return Register{a, a, a, a}; }
  static Register fma(Register a, Register b, Register c) { return a * b + c; }
  static Register min(Register a, Register b) { return a < b ? a : b; }
  static Register max(Register a, Register b) { return a > b ? a : b; }
  // Beyond 2^23 floats have no fraction left: adding and subtracting 1.5 * 2^23 rounds to nearest.
  static Register round(Register a) { return (a + set(12582912.0F)) - set(12582912.0F); }
  static Register absolute(Register a) { return (Register)((Integers)a & 0x7fffffff); }
  static Register square_root(Register a) {
    return Register{std::sqrt(a[0]), std::sqrt(a[1]), std::sqrt(a[2]), std::sqrt(a[3])};
  }
  static Register with_sign(Register magnitude, Register sign) {
    return (Register)((Integers)magnitude | ((Integers)sign & ~0x7fffffff));
  }
  static Register widened(const std::uint8_t* p) {
    return __builtin_convertvector(Integers{p[0], p[1], p[2], p[3]}, Register);
  }
  static Register interleave_low(Register a, Register b) { return Register{a[0], b[0], a[1], b[1]}; }
  static Register interleave_high(Register a, Register b) { return Register{a[2], b[2], a[3], b[3]}; }
};

#include "tandem/rl/policy/kernels/mlp_kernels.inc"
//
#include "tandem/rl/policy/kernels/block_kernels.inc"
//
#include "tandem/rl/policy/kernels/sequences/cell_kernels.inc"
//
#include "tandem/rl/policy/kernels/images/convolution_kernels.inc"

// float64, a number at a time and with the functions of the standard library: for comparing formulas, not for speed.
namespace doubles {

struct V {
  using Real = double;
  using Register = double;
  static constexpr int kWidth = 1, kTileRows = 4, kTileColumns = 4;
  static Register load(const double* p) { return *p; }
  static void store(double* p, Register a) { *p = a; }
  static Register set(double a) { return a; }
  static Register widened(const std::uint8_t* p) { return *p; }
  static Register fma(Register a, Register b, Register c) { return a * b + c; }
  static Register min(Register a, Register b) { return a < b ? a : b; }
  static Register max(Register a, Register b) { return a > b ? a : b; }
  static Register same(Register x, Register y, Register a, Register b) { return x == y ? a : b; }
  static Register positive(Register x, Register a, Register b) { return x > 0 ? a : b; }
  static Register square_root(Register a) { return std::sqrt(a); }
  static Register interleave_low(Register a, Register) { return a; }
  static Register interleave_high(Register a, Register) { return a; }
};

double exp_minus_one(double x) { return std::expm1(x); }
double exponential(double x) { return std::exp(x); }
double natural_logarithm(double x) { return std::log(x); }
double hyperbolic_tangent(double x) { return std::tanh(x); }
double error_function(double x) { return std::erf(x); }

using Reg = V::Register;

#include "tandem/rl/policy/kernels/block_kernels.inc"
//
#include "tandem/rl/policy/kernels/sequences/cell_kernels.inc"
//
#include "tandem/rl/policy/kernels/images/convolution_kernels.inc"

}  // namespace doubles

// The one place that chooses between instruction sets.
const SetKernels& kernels_of(InstructionSet set) {
  require_instruction_set(set);
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return avx512_kernels();
  if (set == InstructionSet::kAvx2) return avx2_kernels();
#endif
  static constexpr SetKernels kPortable{{dense, activate_all}, kBlockKernels, kCellKernels, kConvolutionKernels};
  return kPortable;
}

}  // namespace

PackedLayer::PackedLayer(std::int64_t inputs_, std::int64_t outputs_)
    : inputs(inputs_), outputs(outputs_), weights(padded(outputs_) * inputs_), bias(padded(outputs_)) {}

// Within a panel the weights of kPanel outputs for one input lie side by side, as one or several vectors. The padding
// stays zero, so outputs beyond the last one become zero, too.
void PackedLayer::pack(const float* weight, const float* bias_of, std::int64_t first, std::int64_t count) {
  for (std::int64_t row = 0; row < count; ++row) {
    const std::int64_t o = first + row;
    float* panel = weights.data() + o / kPanel * inputs * kPanel + o % kPanel;
    for (std::int64_t i = 0; i < inputs; ++i) panel[i * kPanel] = weight[row * inputs + i];
    bias.data()[o] = bias_of[row];
  }
}

const MlpKernels& mlp_kernels(InstructionSet set) { return kernels_of(set).mlp; }

template <>
const BlockKernels<float>& block_kernels(InstructionSet set) {
  return kernels_of(set).block;
}

template <>
const BlockKernels<double>& block_kernels(InstructionSet set) {
  require_instruction_set(set);
  return doubles::kBlockKernels;
}

template <>
const CellKernels<float>& cell_kernels(InstructionSet set) {
  return kernels_of(set).cell;
}

template <>
const CellKernels<double>& cell_kernels(InstructionSet set) {
  require_instruction_set(set);
  return doubles::kCellKernels;
}

template <>
const ConvolutionKernels<float>& convolution_kernels(InstructionSet set) {
  return kernels_of(set).convolution;
}

template <>
const ConvolutionKernels<double>& convolution_kernels(InstructionSet set) {
  require_instruction_set(set);
  return doubles::kConvolutionKernels;
}

}  // namespace tandem::rl
