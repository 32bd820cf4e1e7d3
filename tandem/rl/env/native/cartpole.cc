// CartPole-v1: keep a pole upright on a cart that is pushed left or right.
// Source: A. G. Barto, R. S. Sutton, C. W. Anderson, "Neuronlike Adaptive Elements That Can Solve Difficult Learning
// Control Problems" (1983), with the equations of R. V. Florian (2007) and an Euler step, as gymnasium's CartPoleEnv.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tandem/rl/env/native/cartpole_dynamics.h"
#include "tandem/rl/env/native/classic_group.h"
#include "tandem/rl/env/native/pictures.h"

// Plan of a step: eight carts at a time, which a vector of the widest kind holds and narrower processors take in two or
// four. Products and sums are never contracted, so all widths round alike, and the widest is taken without asking what
// the run agreed on.
namespace tandem::rl {
namespace {

constexpr std::size_t kLanes = 8;
constexpr std::size_t kColumns = 4;  // of Carts, and elements of an observation
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));
using Longs = std::int64_t __attribute__((vector_size(kLanes * sizeof(double))));
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
using Bytes = std::uint8_t __attribute__((vector_size(kLanes)));

constexpr double kGravity = 9.8;
constexpr double kPoleMass = 0.1;
constexpr double kTotalMass = 0.1 + 1.0;
constexpr double kHalfLength = 0.5;
constexpr double kPoleMoment = kPoleMass * kHalfLength;
constexpr double kForce = 10.0;
constexpr double kTimeStep = 0.02;

// The polynomials' remainders are below 3e-19 for |angle| up to here. A pole that stands has at most kCartPoleFallen.
constexpr double kSmallAngle = 0.21;
static_assert(kSmallAngle > kCartPoleFallen);

// Vectors pass by reference: by value they would pass in other registers on other processors.
template <typename Vector>
TANDEM_INLINE void load(const void* from, Vector& to) {
  std::memcpy(&to, from, sizeof(to));
}

template <typename Vector>
TANDEM_INLINE void store(const Vector& from, void* to) {
  std::memcpy(to, &from, sizeof(from));
}

// Taylor polynomials. The cosine is near one, so it also adds what 1 - angle^2 / 2 and the square lose in rounding,
// after T. J. Dekker, "A floating-point technique for extending the available precision" (1971). It then differs from a
// rounded exact cosine no more often than the C library's does.
TANDEM_INLINE void sine_and_cosine(const Doubles& angle, Doubles& sine, Doubles& cosine) {
  const Doubles square = angle * angle;
  sine = angle +
         angle * square *
             (-1.0 / 6 +
              square * (1.0 / 120 + square * (-1.0 / 5040 + square * (1.0 / 362'880 + square * (-1.0 / 39'916'800)))));
  const Doubles split = 134'217'729.0 * angle;  // 2^27 + 1
  const Doubles high = split - (split - angle), low = angle - high;
  const Doubles lost_of_square = ((high * high - square) + 2.0 * high * low) + low * low;
  const Doubles main = 1.0 - 0.5 * square, lost_of_main = (1.0 - main) - 0.5 * square;
  const Doubles rest =
      square * square *
      (1.0 / 24 +
       square * (-1.0 / 720 + square * (1.0 / 40'320 + square * (-1.0 / 3'628'800 + square * (1.0 / 479'001'600)))));
  cosine = main + (lost_of_main - 0.5 * lost_of_square + rest);
}

// Takes sine and cosine from the C library in lanes whose angle is larger than any of a standing pole, as it may be in
// a state that was set.
void correct_large_angles(const double* theta, double* sine, double* cosine) {
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (std::abs(theta[lane]) <= kSmallAngle) continue;
    sine[lane] = std::sin(theta[lane]);
    cosine[lane] = std::cos(theta[lane]);
  }
}

TANDEM_INLINE bool all_are_small(const double* angles) {
  std::int64_t large = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane)
    large |= static_cast<std::int64_t>(!(std::abs(angles[lane]) <= kSmallAngle));
  return large == 0;
}

// Rows of four from four columns.
TANDEM_INLINE void store_rows(const Doubles& x, const Doubles& x_dot, const Doubles& theta, const Doubles& theta_dot,
                              float* rows) {
  const Floats a = __builtin_convertvector(x, Floats), b = __builtin_convertvector(x_dot, Floats);
  const Floats c = __builtin_convertvector(theta, Floats), d = __builtin_convertvector(theta_dot, Floats);
  const Floats ab_low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  const Floats cd_low = __builtin_shufflevector(c, d, 0, 8, 1, 9, 2, 10, 3, 11);
  const Floats ab_high = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
  const Floats cd_high = __builtin_shufflevector(c, d, 4, 12, 5, 13, 6, 14, 7, 15);
  store(Floats(__builtin_shufflevector(ab_low, cd_low, 0, 1, 8, 9, 2, 3, 10, 11)), rows);
  store(Floats(__builtin_shufflevector(ab_low, cd_low, 4, 5, 12, 13, 6, 7, 14, 15)), rows + kLanes);
  store(Floats(__builtin_shufflevector(ab_high, cd_high, 0, 1, 8, 9, 2, 3, 10, 11)), rows + 2 * kLanes);
  store(Floats(__builtin_shufflevector(ab_high, cd_high, 4, 5, 12, 13, 6, 7, 14, 15)), rows + 3 * kLanes);
}

// Eight carts: load the columns, the equations of motion, an Euler step, store columns and rows, and find what ended.
TANDEM_INLINE void step_eight(const std::int64_t* actions, const Carts& carts, float* observation, double* reward,
                              std::uint8_t* terminated) {
  Longs action;
  Doubles x, x_dot, theta, theta_dot, sine, cosine;
  load(actions, action);
  load(carts.x, x);
  load(carts.x_dot, x_dot);
  load(carts.theta, theta);
  load(carts.theta_dot, theta_dot);
  sine_and_cosine(theta, sine, cosine);
  if (!all_are_small(carts.theta)) [[unlikely]] {
    double sines[kLanes], cosines[kLanes];
    store(sine, sines);
    store(cosine, cosines);
    correct_large_angles(carts.theta, sines, cosines);
    load(sines, sine);
    load(cosines, cosine);
  }
  const Doubles right = Doubles{} + kForce;
  const Doubles force = action == 1 ? right : -right;
  const Doubles push = (force + kPoleMoment * (theta_dot * theta_dot) * sine) / kTotalMass;
  const Doubles theta_acceleration =
      (kGravity * sine - cosine * push) / (kHalfLength * (4.0 / 3.0 - kPoleMass * (cosine * cosine) / kTotalMass));
  const Doubles acceleration = push - kPoleMoment * theta_acceleration * cosine / kTotalMass;
  x += kTimeStep * x_dot;
  x_dot += kTimeStep * acceleration;
  theta += kTimeStep * theta_dot;
  theta_dot += kTimeStep * theta_acceleration;
  store(x, carts.x);
  store(x_dot, carts.x_dot);
  store(theta, carts.theta);
  store(theta_dot, carts.theta_dot);
  store_rows(x, x_dot, theta, theta_dot, observation);
  store(Doubles{} + 1.0, reward);
  const Longs ended =
      (x < -kCartPoleEdge) | (x > kCartPoleEdge) | (theta < -kCartPoleFallen) | (theta > kCartPoleFallen);
  store(Bytes(__builtin_convertvector(ended & 1, Bytes)), terminated);
}

// Steps the last carts, fewer than eight, in a full vector whose other lanes hold carts that stand still.
TANDEM_INLINE void step_rest(std::size_t count, const std::int64_t* actions, const Carts& carts, float* observation,
                             double* reward, std::uint8_t* terminated) {
  std::int64_t action[kLanes] = {};
  double columns[kColumns][kLanes] = {}, rewards[kLanes];
  float rows[kColumns * kLanes];
  std::uint8_t ended[kLanes];
  double* const own[kColumns] = {carts.x, carts.x_dot, carts.theta, carts.theta_dot};
  std::copy_n(actions, count, action);
  for (std::size_t c = 0; c < kColumns; ++c) std::copy_n(own[c], count, columns[c]);
  step_eight(action, {columns[0], columns[1], columns[2], columns[3]}, rows, rewards, ended);
  for (std::size_t c = 0; c < kColumns; ++c) std::copy_n(columns[c], count, own[c]);
  std::copy_n(rows, kColumns * count, observation);
  std::copy_n(rewards, count, reward);
  std::copy_n(ended, count, terminated);
}

TANDEM_INLINE void step_all(std::size_t count, const std::int64_t* actions, const Carts& carts, float* observation,
                            double* reward, std::uint8_t* terminated) {
  std::size_t at = 0;
  const auto rest = [&] { return Carts{carts.x + at, carts.x_dot + at, carts.theta + at, carts.theta_dot + at}; };
  for (; at + kLanes <= count; at += kLanes)
    step_eight(actions + at, rest(), observation + kColumns * at, reward + at, terminated + at);
  if (at < count)
    step_rest(count - at, actions + at, rest(), observation + kColumns * at, reward + at, terminated + at);
}

void step_portable(std::size_t count, const std::int64_t* actions, const Carts& carts, float* observation,
                   double* reward, std::uint8_t* terminated) {
  step_all(count, actions, carts, observation, reward, terminated);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void step_avx2(std::size_t count, const std::int64_t* actions, const Carts& carts,
                                       float* observation, double* reward, std::uint8_t* terminated) {
  step_all(count, actions, carts, observation, reward, terminated);
}
[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl")]] void step_avx512(std::size_t count, const std::int64_t* actions,
                                                                       const Carts& carts, float* observation,
                                                                       double* reward, std::uint8_t* terminated) {
  step_all(count, actions, carts, observation, reward, terminated);
}
#endif

enum Variable { kX, kXDot, kTheta, kThetaDot, kVariables };

constexpr double kNone = std::numeric_limits<double>::infinity();  // no bound

// Columns: place and speed of the cart, angle and angular speed of the pole, which are shown as they are. The step of
// all environments is one call of cartpole_dynamics.h.
class CartPole final : public ClassicGroup {
 public:
  explicit CartPole(int count)
      : ClassicGroup({.id = "CartPole-v1",
                      .observation = {bounded_observation({-2 * kCartPoleEdge, -kNone, -2 * kCartPoleFallen, -kNone},
                                                          {2 * kCartPoleEdge, kNone, 2 * kCartPoleFallen, kNone})},
                      .action = Discrete{2},
                      .max_episode_steps = 500,
                      .reward_threshold = 475.0,
                      .render_fps = 50},
                     count, kVariables) {}

 private:
  void start(int env, NumpyGenerator& random) override {
    for (int variable = 0; variable < kVariables; ++variable) column(variable)[env] = random.uniform(-0.05, 0.05);
  }

  void observe(int env, float* row) const override {
    for (int variable = 0; variable < kVariables; ++variable) row[variable] = static_cast<float>(column(variable)[env]);
  }

  void advance(const EnvActions& actions, float* observation, double* reward, std::uint8_t* terminated) override {
    step_(static_cast<std::size_t>(size()), actions.discrete,
          {.x = column(kX), .x_dot = column(kXDot), .theta = column(kTheta), .theta_dot = column(kThetaDot)},
          observation, reward, terminated);
  }

  void draw(int env, Canvas& canvas) const override { draw_cartpole(canvas, column(kX)[env], column(kTheta)[env]); }

  CartStep* const step_ = cart_step_of(detect_instruction_set());
};

}  // namespace

CartStep* cart_step_of([[maybe_unused]] InstructionSet set) {
#if defined(__x86_64__)
  if (set == InstructionSet::kAvx512) return step_avx512;
  if (set == InstructionSet::kAvx2) return step_avx2;
#endif
  return step_portable;
}

std::unique_ptr<ClassicGroup> make_cartpole(int count) { return std::make_unique<CartPole>(count); }

}  // namespace tandem::rl
