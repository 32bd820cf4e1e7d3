// Acrobot-v1: swing the free end of a two-link chain above a height, with a torque at the joint between the links.
// Source: R. S. Sutton, "Generalization in Reinforcement Learning: Successful Examples Using Sparse Coarse Coding"
// (1996), with the equations of Sutton and Barto's book (2018), one Runge-Kutta step of 0.2 s, as gymnasium's
// AcrobotEnv.
//
// Both links have mass 1, length 1, moment of inertia 1 and their centre of mass in the middle; the numbers below are
// those of the equations with these values put in, which rounds as the equations do.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "tandem/rl/env/native/classic_group.h"
#include "tandem/rl/env/native/pictures.h"

namespace tandem::rl {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kTimeStep = 0.2;
constexpr double kGravity = 9.8;
constexpr double kFastest1 = 4 * kPi;  // radians per second
constexpr double kFastest2 = 9 * kPi;

enum Variable { kTheta1, kTheta2, kVelocity1, kVelocity2, kVariables };
using State = std::array<double, kVariables>;
constexpr int kShown = 6;

// d(state)/dt under a torque.
State derivative(const State& state, double torque) {
  const auto [theta1, theta2, velocity1, velocity2] = state;
  const double sine2 = std::sin(theta2);
  const double cosine2 = std::cos(theta2);
  const double d1 = 0.25 + (1.25 + cosine2) + 1.0 + 1.0;
  const double d2 = (0.25 + 0.5 * cosine2) + 1.0;
  const double phi2 = 0.5 * kGravity * std::cos(theta1 + theta2 - kPi / 2.0);
  const double phi1 = -0.5 * (velocity2 * velocity2) * sine2 - velocity2 * velocity1 * sine2 +
                      1.5 * kGravity * std::cos(theta1 - kPi / 2.0) + phi2;
  const double acceleration2 =
      (torque + d2 / d1 * phi1 - 0.5 * (velocity1 * velocity1) * sine2 - phi2) / (1.25 - d2 * d2 / d1);
  const double acceleration1 = -(d2 * acceleration2 + phi1) / d1;
  return {velocity1, velocity2, acceleration1, acceleration2};
}

// from + by * slope.
State moved(const State& from, double by, const State& slope) {
  State to;
  for (std::size_t i = 0; i < kVariables; ++i) to[i] = from[i] + by * slope[i];
  return to;
}

// One step of the classic fourth-order Runge-Kutta method; the torque is constant during the step.
State runge_kutta(const State& from, double torque) {
  const State k1 = derivative(from, torque);
  const State k2 = derivative(moved(from, kTimeStep / 2.0, k1), torque);
  const State k3 = derivative(moved(from, kTimeStep / 2.0, k2), torque);
  const State k4 = derivative(moved(from, kTimeStep, k3), torque);
  State to;
  for (std::size_t i = 0; i < kVariables; ++i) {
    to[i] = from[i] + kTimeStep / 6.0 * (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i]);
  }
  return to;
}

// The angle within [-pi, pi], by turns, as gymnasium's wrap().
double wrapped(double angle) {
  while (angle > kPi) angle -= 2 * kPi;
  while (angle < -kPi) angle += 2 * kPi;
  return angle;
}

// Note [Start states are float32]
// Gymnasium keeps a start state in float32, and NumPy then takes its sine and cosine in float32, with polynomials of
// its own. Angles are within 0.1 here, where no range reduction is needed, so these are the same bits. After the first
// step the state is float64.
float start_sine(float x) {
  const float square = x * x;
  float sum = std::fma(0x1.7d3bbcp-19f, square, -0x1.a06bbap-13f);
  sum = std::fma(sum, square, 0x1.11119ap-07f);
  sum = std::fma(sum, square, -0x1.555556p-03f);
  return std::fma(sum * square, x, x);
}

float start_cosine(float x) {
  const float square = x * x;
  float sum = std::fma(0x1.98e616p-16f, square, -0x1.6c06dcp-10f);
  sum = std::fma(sum, square, 0x1.55553cp-05f);
  sum = std::fma(sum, square, -0.5f);
  return std::fma(sum, square, 1.0f);
}

// Columns: the two angles and their speeds. Shown are cosine and sine of both angles, and the speeds.
class Acrobot final : public ClassicGroup {
 public:
  explicit Acrobot(int count)
      : ClassicGroup({.id = "Acrobot-v1",
                      .observation = {bounded_observation({-1, -1, -1, -1, -kFastest1, -kFastest2},
                                                          {1, 1, 1, 1, kFastest1, kFastest2})},
                      .action = Discrete{3},
                      .max_episode_steps = 500,
                      .reward_threshold = -100.0,
                      .render_fps = 15},
                     count, kVariables) {}

 private:
  void start(int env, NumpyGenerator& random) override {
    for (int variable = 0; variable < kVariables; ++variable) {
      column(variable)[env] = static_cast<float>(random.uniform(-0.1, 0.1));
    }
  }

  void observe(int env, float* row) const override {
    const double theta1 = column(kTheta1)[env];
    const double theta2 = column(kTheta2)[env];
    if (elapsed(env) == 0) {
      row[0] = start_cosine(static_cast<float>(theta1));
      row[1] = start_sine(static_cast<float>(theta1));
      row[2] = start_cosine(static_cast<float>(theta2));
      row[3] = start_sine(static_cast<float>(theta2));
    } else {
      row[0] = static_cast<float>(std::cos(theta1));
      row[1] = static_cast<float>(std::sin(theta1));
      row[2] = static_cast<float>(std::cos(theta2));
      row[3] = static_cast<float>(std::sin(theta2));
    }
    row[4] = static_cast<float>(column(kVelocity1)[env]);
    row[5] = static_cast<float>(column(kVelocity2)[env]);
  }

  void advance(const EnvActions& actions, float* observation, double* reward, std::uint8_t* terminated) override {
    for (int env = 0; env < size(); ++env, observation += kShown) {
      State state;
      for (int variable = 0; variable < kVariables; ++variable)
        state[static_cast<std::size_t>(variable)] = column(variable)[env];
      state = runge_kutta(state, static_cast<double>(actions.discrete[env] - 1));
      state[kTheta1] = wrapped(state[kTheta1]);
      state[kTheta2] = wrapped(state[kTheta2]);
      state[kVelocity1] = std::clamp(state[kVelocity1], -kFastest1, kFastest1);
      state[kVelocity2] = std::clamp(state[kVelocity2], -kFastest2, kFastest2);
      for (int variable = 0; variable < kVariables; ++variable)
        column(variable)[env] = state[static_cast<std::size_t>(variable)];
      const double cosine1 = std::cos(state[kTheta1]);
      observation[0] = static_cast<float>(cosine1);
      observation[1] = static_cast<float>(std::sin(state[kTheta1]));
      observation[2] = static_cast<float>(std::cos(state[kTheta2]));
      observation[3] = static_cast<float>(std::sin(state[kTheta2]));
      observation[4] = static_cast<float>(state[kVelocity1]);
      observation[5] = static_cast<float>(state[kVelocity2]);
      const bool high_enough = -cosine1 - std::cos(state[kTheta2] + state[kTheta1]) > 1.0;
      terminated[env] = high_enough;
      reward[env] = high_enough ? 0.0 : -1.0;
    }
  }

  void draw(int env, Canvas& canvas) const override {
    draw_acrobot(canvas, column(kTheta1)[env], column(kTheta2)[env]);
  }
};

}  // namespace

std::unique_ptr<ClassicGroup> make_acrobot(int count) { return std::make_unique<Acrobot>(count); }

}  // namespace tandem::rl
