// Pendulum-v1: swing a pendulum up and hold it there with a limited torque. Episodes end by their time limit alone.
// Source: gymnasium's PendulumEnv, whose equations are those of a rod of mass 1 and length 1 at g = 10 m/s^2.
//
// The torque arrives as float32, so NumPy computes what is made of it alone in float32; all else is float64.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "tandem/rl/env/native/classic_group.h"
#include "tandem/rl/env/native/pictures.h"

namespace tandem::rl {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr double kTimeStep = 0.05;
constexpr double kFastest = 8.0;  // radians per second
constexpr float kMaxTorque = 2.0f;
constexpr int kShown = 3;

enum Variable { kTheta, kVelocity, kVariables };

// The angle from upright within [-pi, pi), by Python's modulo: its result has the sign of the divisor.
double normalised(double angle) {
  double turned = std::fmod(angle + kPi, 2.0 * kPi);
  if (turned < 0.0) turned += 2.0 * kPi;
  return turned - kPi;
}

// Columns: the angle from upright and its speed. Shown are cosine and sine of the angle, and the speed. There is no
// reward threshold: gymnasium names none.
class Pendulum final : public ClassicGroup {
 public:
  explicit Pendulum(int count)
      : ClassicGroup({.id = "Pendulum-v1",
                      .observation = {bounded_observation({-1.0, -1.0, -kFastest}, {1.0, 1.0, kFastest})},
                      .action = Box{{-2.0}, {2.0}},
                      .max_episode_steps = 200,
                      .render_fps = 20},
                     count, kVariables) {}

 private:
  void start(int env, NumpyGenerator& random) override {
    column(kTheta)[env] = random.uniform(-kPi, kPi);
    column(kVelocity)[env] = random.uniform(-1.0, 1.0);
  }

  void observe(int env, float* row) const override {
    row[0] = static_cast<float>(std::cos(column(kTheta)[env]));
    row[1] = static_cast<float>(std::sin(column(kTheta)[env]));
    row[2] = static_cast<float>(column(kVelocity)[env]);
  }

  void advance(const EnvActions& actions, float* observation, double* reward, std::uint8_t* terminated) override {
    for (int env = 0; env < size(); ++env) {
      const double theta = column(kTheta)[env];
      const double velocity = column(kVelocity)[env];
      const float torque = std::clamp(actions.box[env], -kMaxTorque, kMaxTorque);
      const double angle = normalised(theta);
      const double cost = angle * angle + 0.1 * (velocity * velocity) + static_cast<double>(0.001f * (torque * torque));
      double next = velocity + (15.0 * std::sin(theta) + static_cast<double>(3.0f * torque)) * kTimeStep;
      next = std::clamp(next, -kFastest, kFastest);
      column(kTheta)[env] = theta + next * kTimeStep;
      column(kVelocity)[env] = next;
      observe(env, observation + std::ptrdiff_t{env} * kShown);
      reward[env] = -cost;
      terminated[env] = 0;
    }
  }

  void draw(int env, Canvas& canvas) const override { draw_pendulum(canvas, column(kTheta)[env]); }
};

}  // namespace

std::unique_ptr<ClassicGroup> make_pendulum(int count) { return std::make_unique<Pendulum>(count); }

}  // namespace tandem::rl
