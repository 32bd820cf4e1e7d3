// CartPole-v1: keep a pole upright on a cart that is pushed left or right.
// Source: A. G. Barto, R. S. Sutton, C. W. Anderson, "Neuronlike Adaptive Elements That Can Solve Difficult Learning
// Control Problems" (1983), with the equations of R. V. Florian (2007) and an Euler step, as gymnasium's CartPoleEnv.
#include <cmath>
#include <limits>
#include <numbers>

#include "tandem/rl/env/classic_group.h"

namespace tandem::rl {
namespace {

constexpr double kGravity = 9.8;
constexpr double kPoleMass = 0.1;
constexpr double kTotalMass = 0.1 + 1.0;
constexpr double kHalfLength = 0.5;
constexpr double kPoleMoment = kPoleMass * kHalfLength;
constexpr double kForce = 10.0;
constexpr double kTimeStep = 0.02;
constexpr double kEdge = 2.4;                                      // of the track, from its middle
constexpr double kFallen = 12.0 * 2.0 * std::numbers::pi / 360.0;  // angle from upright, radians

enum Variable { kX, kXDot, kTheta, kThetaDot, kVariables };

Spec cartpole_spec() {
  const double none = std::numeric_limits<double>::infinity();
  return {.id = "CartPole-v1",
          .observation = {bounded_observation({-2 * kEdge, -none, -2 * kFallen, -none},
                                              {2 * kEdge, none, 2 * kFallen, none})},
          .action = Discrete{2},
          .max_episode_steps = 500,
          .reward_threshold = 475.0};
}

// One step of `count` carts. No call and no branch inside, and parameters that do not overlap: the compiler makes
// vector instructions of it, which round as the scalar ones do.
void move(std::size_t count, const double* __restrict force, const double* __restrict sine,
          const double* __restrict cosine, double* __restrict x, double* __restrict x_dot, double* __restrict theta,
          double* __restrict theta_dot) {
  for (std::size_t e = 0; e < count; ++e) {
    const double push = (force[e] + kPoleMoment * (theta_dot[e] * theta_dot[e]) * sine[e]) / kTotalMass;
    const double theta_acceleration = (kGravity * sine[e] - cosine[e] * push) /
                                      (kHalfLength * (4.0 / 3.0 - kPoleMass * (cosine[e] * cosine[e]) / kTotalMass));
    const double acceleration = push - kPoleMoment * theta_acceleration * cosine[e] / kTotalMass;
    x[e] += kTimeStep * x_dot[e];
    x_dot[e] += kTimeStep * acceleration;
    theta[e] += kTimeStep * theta_dot[e];
    theta_dot[e] += kTimeStep * theta_acceleration;
  }
}

class CartPole final : public ClassicGroup {
 public:
  explicit CartPole(int count)
      : ClassicGroup(cartpole_spec(), count, kVariables),
        force_(static_cast<std::size_t>(count)),
        sine_(static_cast<std::size_t>(count)),
        cosine_(static_cast<std::size_t>(count)) {}

 private:
  void start(int env, NumpyGenerator& random) override {
    for (int variable = 0; variable < kVariables; ++variable) column(variable)[env] = random.uniform(-0.05, 0.05);
  }

  void observe(int env, float* row) const override {
    for (int variable = 0; variable < kVariables; ++variable) row[variable] = static_cast<float>(column(variable)[env]);
  }

  void advance(const EnvActions& actions, float* observation, double* reward, std::uint8_t* terminated) override;

  std::vector<double> force_, sine_, cosine_;  // of the step in progress
};

void CartPole::advance(const EnvActions& actions, float* observation, double* reward, std::uint8_t* terminated) {
  const auto count = static_cast<std::size_t>(size());
  double* x = column(kX);
  double* x_dot = column(kXDot);
  double* theta = column(kTheta);
  double* theta_dot = column(kThetaDot);
  for (std::size_t e = 0; e < count; ++e) {
    force_[e] = static_cast<double>(2 * actions.discrete[e] - 1) * kForce;
    sine_[e] = std::sin(theta[e]);
    cosine_[e] = std::cos(theta[e]);
  }
  move(count, force_.data(), sine_.data(), cosine_.data(), x, x_dot, theta, theta_dot);
  for (std::size_t e = 0; e < count; ++e) {
    float* row = observation + e * kVariables;
    row[kX] = static_cast<float>(x[e]);
    row[kXDot] = static_cast<float>(x_dot[e]);
    row[kTheta] = static_cast<float>(theta[e]);
    row[kThetaDot] = static_cast<float>(theta_dot[e]);
    reward[e] = 1.0;
    terminated[e] = (x[e] < -kEdge) | (x[e] > kEdge) | (theta[e] < -kFallen) | (theta[e] > kFallen);
  }
}

}  // namespace

std::unique_ptr<ClassicGroup> make_cartpole(int count) { return std::make_unique<CartPole>(count); }

}  // namespace tandem::rl
