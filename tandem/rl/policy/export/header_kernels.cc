#include "tandem/rl/policy/export/header_kernels.h"

// A fused multiply-add rounds once where the portable loops round twice. Compilers may fuse a product with a sum unless
// they are told not to: GCC by an option of the functions, which are not to be joined with a caller's that allows it;
// clang and Visual C++ by a pragma.
namespace tandem::rl {

const char* const kHeaderBegin = R"text(#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

// The actions have the bits of the policy that was trained if sums and products are rounded to float one by one.
#if defined(__FAST_MATH__)
#error "compile this header without -ffast-math or -Ofast: actions would not be those of the trained policy"
#endif
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0
#error "compile this header for a processor that computes floats as floats (on x86: -msse2 -mfpmath=sse)"
#endif
#if defined(__clang__)
#define TANDEM_ROUND_EACH _Pragma("clang fp contract(off)")
#define TANDEM_APART __attribute__((noinline))
#define TANDEM_OWN __restrict__
#elif defined(__GNUC__)
#define TANDEM_ROUND_EACH
#define TANDEM_APART __attribute__((noinline))
#define TANDEM_OWN __restrict__
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")
#else
#define TANDEM_ROUND_EACH
#define TANDEM_APART
#define TANDEM_OWN
#if defined(_MSC_VER)
#pragma fp_contract(off)
#endif
#endif
)text";

const char* const kHeaderFunctions = R"text(
// The bits of a float as an integer, and back.
inline float of_bits(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
inline std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float absolute(float x) { return of_bits(bits_of(x) & 0x7fffffffU); }
// |x|, or 9.1 where that is less. The bits of positive numbers are in the order of the numbers, and those of NaN, which
// stays NaN, above all; a choice between integers is one that compilers make vectors of.
inline float absolute_up_to_9_1(float x) {
  const std::int32_t size = static_cast<std::int32_t>(bits_of(x) & 0x7fffffffU), most = 0x4111999a;
  const std::int32_t over = -static_cast<std::int32_t>(size > most);
  const std::int32_t nan = -static_cast<std::int32_t>(size > 0x7f800000);
  return of_bits(static_cast<std::uint32_t>((most & over & ~nan) | (size & (~over | nan))));
}
inline float with_sign(float magnitude, float sign) {
  return of_bits(bits_of(magnitude) | (bits_of(sign) & 0x80000000U));
}

// exp(x) - 1 for -87 <= x <= 88: x = n ln 2 + r with |r| <= ln(2) / 2, and the Taylor series of exp(r) - 1. ln 2 comes
// in two parts, so that n times the first of them is exact. Adding and subtracting 1.5 * 2^23 rounds to a whole number.
inline float exp_minus_one(float x) {
  TANDEM_ROUND_EACH
  const float n = (x * 1.44269504F + 12582912.0F) - 12582912.0F;
  float r = n * -0.693359375F + x;
  r = n * 2.12194440e-4F + r;
  float series = (1.0F / 5040) * r + 1.0F / 720;
  series = series * r + 1.0F / 120;
  series = series * r + 1.0F / 24;
  series = series * r + 1.0F / 6;
  series = series * r + 0.5F;
  series = (r * r) * series + r;
  const float scale = of_bits(static_cast<std::uint32_t>(static_cast<std::int32_t>(n) + 127) << 23);
  return scale * series + (scale - 1.0F);
}
inline float exponential(float x) {
  TANDEM_ROUND_EACH
  const float above = -87.0F > x ? -87.0F : x;
  return exp_minus_one(88.0F < above ? 88.0F : above) + 1.0F;
}
// (e^2|x| - 1) / (e^2|x| + 1) with the sign of x; from 9.1 on it is 1 to float.
inline float hyperbolic_tangent(float x) {
  TANDEM_ROUND_EACH
  const float magnitude = absolute_up_to_9_1(x);
  const float e = exp_minus_one(magnitude + magnitude);
  return with_sign(e / (e + 2.0F), x);
}
inline float sigmoid(float x) {
  TANDEM_ROUND_EACH
  return 1.0F / (1.0F + exponential(0.0F - x));
}
// Abramowitz and Stegun, formula 7.1.26.
inline float error_function(float x) {
  TANDEM_ROUND_EACH
  const float z = absolute(x), t = 1.0F / (z * 0.3275911F + 1.0F);
  float series = 1.061405429F * t + -1.453152027F;
  series = series * t + 1.421413741F;
  series = series * t + -0.284496736F;
  series = series * t + 0.254829592F;
  const float tail = series * t * exponential((0.0F - z) * z);
  return with_sign(1.0F - tail, x);
}

// y = f(x), number by number; x and y are one array.
inline void activate_tanh(float* y, int count) {
  for (int i = 0; i < count; ++i) y[i] = hyperbolic_tangent(y[i]);
}
inline void activate_relu(float* y, int count) {
  for (int i = 0; i < count; ++i) y[i] = 0.0F > y[i] ? 0.0F : y[i];
}
inline void activate_silu(float* y, int count) {
  TANDEM_ROUND_EACH
  for (int i = 0; i < count; ++i) y[i] = y[i] / (1.0F + exponential(0.0F - y[i]));
}
inline void activate_gelu(float* y, int count) {
  TANDEM_ROUND_EACH
  for (int i = 0; i < count; ++i) {
    const float half = y[i] * 0.5F;
    y[i] = half * error_function(y[i] * 0.707106781F) + half;
  }
}
inline void activate_elu(float* y, int count) {
  for (int i = 0; i < count; ++i) {
    const float above = -87.0F > y[i] ? -87.0F : y[i];
    const float below_zero = exp_minus_one(0.0F < above ? 0.0F : above);
    y[i] = y[i] > 0.0F ? y[i] : below_zero;
  }
}

// y = bias + weights x, summed in the order of the inputs; weights are [inputs, outputs]. Four inputs at a time are
// added in their order, so that a sum is read and written once for four of them. Vectors go along the outputs, whose
// sums do not wait for each other.
template <int kInputs, int kOutputs>
inline void linear(const float* TANDEM_OWN weights, const float* TANDEM_OWN bias, const float* TANDEM_OWN x,
                   float* TANDEM_OWN y) {
  TANDEM_ROUND_EACH
  const int kFours = kInputs / 4 * 4;
  for (int o = 0; o < kOutputs; ++o) y[o] = bias[o];
  for (int i = 0; i < kFours; i += 4, weights += 4 * kOutputs) {
    const float a = x[i], b = x[i + 1], c = x[i + 2], d = x[i + 3];
    for (int o = 0; o < kOutputs; ++o) {
      float sum = y[o] + a * weights[o];
      sum = sum + b * weights[o + kOutputs];
      sum = sum + c * weights[o + 2 * kOutputs];
      y[o] = sum + d * weights[o + 3 * kOutputs];
    }
  }
  for (int i = kFours; i < kInputs; ++i, weights += kOutputs) {
    const float a = x[i];
    for (int o = 0; o < kOutputs; ++o) y[o] = y[o] + a * weights[o];
  }
}

// Observations to features: floats are normalised, or narrowed where they are of float64; bytes are scaled by their
// bounds; an integer is a one among zeros.
template <typename Real>
inline void normalize(const Real* x, const Real* mean, const Real* inverse_deviation, Real clip, int count, float* to) {
  TANDEM_ROUND_EACH
  for (int i = 0; i < count; ++i) {
    const Real y = (x[i] - mean[i]) * inverse_deviation[i];
    to[i] = static_cast<float>(y < -clip ? -clip : clip < y ? clip : y);
  }
}
template <typename Real>
inline void narrow(const Real* x, int count, float* to) {
  for (int i = 0; i < count; ++i) to[i] = static_cast<float>(x[i]);
}
inline void scale(const std::uint8_t* x, const float* low, const float* by, int count, float* to) {
  TANDEM_ROUND_EACH
  for (int i = 0; i < count; ++i) to[i] = (static_cast<float>(x[i]) - low[i]) * by[i];
}
// False where a number is out of its bounds.
inline bool one_hot(const std::int64_t* x, const std::int64_t* first, const std::int64_t* options, int count, int size,
                    float* to) {
  for (int i = 0; i < size; ++i) to[i] = 0.0F;
  for (int i = 0; i < count; ++i) {
    if (x[i] < first[i] || x[i] - first[i] >= options[i]) return false;
    to[x[i] - first[i]] = 1.0F;
    to += options[i];
  }
  return true;
}

// Numbers to actions. Both tell whether there is one: a number that is not finite is the mark of a policy or of an
// observation that is broken.
inline bool choose(const float* logits, const std::uint8_t* mask, int options, std::int64_t* choice) {
  int best = -1;
  for (int i = 0; i < options; ++i) {
    if (mask != nullptr && mask[i] == 0) continue;
    if (!(logits[i] <= FLT_MAX)) return false;
    if (best < 0 || logits[i] > logits[best]) best = i;
  }
  if (best < 0 || !(logits[best] >= -FLT_MAX)) return false;
  *choice = best;
  return true;
}
inline bool are_finite(const float* x, int count) {
  for (int i = 0; i < count; ++i) {
    if (!(x[i] <= FLT_MAX && x[i] >= -FLT_MAX)) return false;
  }
  return true;
}
// From -1 .. 1 to the bounds, and within them.
inline float place(float given, double middle, double range, double low, double high) {
  TANDEM_ROUND_EACH
  const double action = middle + given * 0.5 * range;
  return static_cast<float>(action < low ? low : high < action ? high : action);
}
)text";

const char* const kHeaderCells = R"text(
// A step of a cell from the products with its input and with its output before, biases included; a state is the output
// and, of an LSTM, the memory.
template <int kUnits>
inline void lstm(const float* TANDEM_OWN of_input, const float* TANDEM_OWN of_output, float* TANDEM_OWN state) {
  TANDEM_ROUND_EACH
  for (int u = 0; u < kUnits; ++u) {
    const float in = sigmoid(of_input[u] + of_output[u]);
    const float forget = sigmoid(of_input[kUnits + u] + of_output[kUnits + u]);
    const float proposed = hyperbolic_tangent(of_input[2 * kUnits + u] + of_output[2 * kUnits + u]);
    const float out = sigmoid(of_input[3 * kUnits + u] + of_output[3 * kUnits + u]);
    const float memory = in * proposed + forget * state[kUnits + u];
    state[u] = out * hyperbolic_tangent(memory);
    state[kUnits + u] = memory;
  }
}
// A GRU's gates are reset, update and proposed value; an LSTM's are input, forget, proposed value and output. They lie
// in this order, gate by gate.
template <int kUnits>
inline void gru(const float* TANDEM_OWN of_input, const float* TANDEM_OWN of_output, float* TANDEM_OWN state) {
  TANDEM_ROUND_EACH
  for (int u = 0; u < kUnits; ++u) {
    const float reset = sigmoid(of_input[u] + of_output[u]);
    const float update = sigmoid(of_input[kUnits + u] + of_output[kUnits + u]);
    const float proposed = hyperbolic_tangent(reset * of_output[2 * kUnits + u] + of_input[2 * kUnits + u]);
    state[u] = update * (state[u] - proposed) + proposed;
  }
}
)text";

const char* const kHeaderReturns = R"text(
// DQN makes returns of actions from a state's value and advantages, and means of returns that are distributions.
template <int kActions, int kNumbers>
inline void duel(const float* value, const float* advantages, float* to) {
  TANDEM_ROUND_EACH
  const float share = 1.0F / static_cast<float>(kActions);
  for (int n = 0; n < kNumbers; ++n) {
    float sum = 0.0F;
    for (int a = 0; a < kActions; ++a) sum += advantages[a * kNumbers + n];
    for (int a = 0; a < kActions; ++a)
      to[a * kNumbers + n] = value[n] + advantages[a * kNumbers + n] - sum * share;
  }
}
// The mean of an action's numbers, which are quantiles.
template <int kActions, int kNumbers>
inline void average(const float* x, float* to) {
  for (int a = 0; a < kActions; ++a) {
    float sum = 0.0F;
    for (int n = 0; n < kNumbers; ++n) sum += x[a * kNumbers + n];
    to[a] = sum / static_cast<float>(kNumbers);
  }
}
// log(m) = 2 artanh((m - 1) / (m + 1)) of m = x / 2^n between the square roots of 1/2 and 2.
// It is for normal x > 0; the series is that of artanh to the ninth power.
inline float natural_logarithm(float x) {
  TANDEM_ROUND_EACH
  const std::uint32_t bits = bits_of(x);
  float n = static_cast<float>(static_cast<std::int32_t>(bits >> 23) - 127);
  float m = of_bits((bits & 0x007fffffU) | 0x3f800000U);
  if (m - 1.41421356F > 0.0F) {
    n = n + 1.0F;
    m = m * 0.5F;
  }
  const float s = (m - 1.0F) / (m + 1.0F), square = s * s;
  float series = (2.0F / 9) * square + 2.0F / 7;
  series = series * square + 2.0F / 5;
  series = series * square + 2.0F / 3;
  series = series * square + 2.0F;
  return n * 0.69314718F + series * s;
}
// The mean of `support` under the probabilities that the logits of an action stand for: relative to the largest one, so
// that no exponential overflows.
template <int kActions, int kNumbers>
inline void expect(const float* logits, const float* support, float* to) {
  TANDEM_ROUND_EACH
  for (int a = 0; a < kActions; ++a, logits += kNumbers) {
    float top = logits[0], total = 0.0F, mean = 0.0F;
    for (int n = 1; n < kNumbers; ++n) top = top > logits[n] ? top : logits[n];
    for (int n = 0; n < kNumbers; ++n) total = total + exponential(logits[n] - top);
    const float log_total = top + natural_logarithm(total);
    for (int n = 0; n < kNumbers; ++n) mean += exponential(logits[n] - log_total) * support[n];
    to[a] = mean;
  }
}
)text";

const char* const kHeaderEnd = R"text(
#undef TANDEM_ROUND_EACH
#undef TANDEM_APART
#undef TANDEM_OWN
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
)text";

}  // namespace tandem::rl
