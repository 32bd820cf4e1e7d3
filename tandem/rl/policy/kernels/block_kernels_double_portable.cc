// float64, a number at a time and with the functions of the standard library: for comparing formulas, not for speed.
#include <cmath>

#include "tandem/rl/policy/kernels/block_kernels.h"

namespace tandem::rl {
namespace {

struct V {
  using Real = double;
  using Register = double;
  static constexpr int kWidth = 1, kTileRows = 4, kTileColumns = 4;
  static Register load(const double* p) { return *p; }
  static void store(double* p, Register a) { *p = a; }
  static Register set(double a) { return a; }
  static Register add(Register a, Register b) { return a + b; }
  static Register sub(Register a, Register b) { return a - b; }
  static Register mul(Register a, Register b) { return a * b; }
  static Register div(Register a, Register b) { return a / b; }
  static Register fma(Register a, Register b, Register c) { return a * b + c; }
  static Register min(Register a, Register b) { return a < b ? a : b; }
  static Register max(Register a, Register b) { return a > b ? a : b; }
  static Register same(Register x, Register y, Register a, Register b) { return x == y ? a : b; }
  static Register positive(Register x, Register a, Register b) { return x > 0 ? a : b; }
  static Register interleave_low(Register a, Register) { return a; }
  static Register interleave_high(Register a, Register) { return a; }
};

double exp_minus_one(double x) { return std::expm1(x); }
double exponential(double x) { return std::exp(x); }
double natural_logarithm(double x) { return std::log(x); }
double hyperbolic_tangent(double x) { return std::tanh(x); }
double error_function(double x) { return std::erf(x); }

#include "tandem/rl/policy/kernels/activations.inc"
//
#include "tandem/rl/policy/kernels/block_kernels.inc"

}  // namespace

const BlockKernels<double>& portable_block_kernels_of_doubles() { return kBlockKernels; }

}  // namespace tandem::rl
