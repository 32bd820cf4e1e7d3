// MountainCar-v0: a car too weak for the hill has to swing back and forth to reach the flag; pushes left, none, right.
// MountainCarContinuous-v0: the same car with a motor that pushes by any force within [-1, 1].
// Source: A. W. Moore, "Efficient Memory-based Learning for Robot Control" (1990), as gymnasium's MountainCarEnv and
// Continuous_MountainCarEnv.
//
// Note [Arithmetic of the continuous car]
// Gymnasium's start state is float64 and every later one float32, and NumPy computes in float32 as soon as one operand
// is a float32 (a Python float beside it is rounded first). So the first step of an episode is float64 and all others
// float32, except that a force cut at its bound is a Python float, whose sum with the slope is still float64.
// move<Real>() follows that to the last bit.
#include <algorithm>
#include <cmath>
#include <utility>

#include "tandem/rl/env/native/classic_group.h"
#include "tandem/rl/env/native/pictures.h"

namespace tandem::rl {
namespace {

constexpr double kLeftEnd = -1.2;
constexpr double kRightEnd = 0.6;
constexpr double kFastest = 0.07;

enum Variable { kPosition, kVelocity, kVariables };

Leaf observation() { return bounded_observation({kLeftEnd, -kFastest}, {kRightEnd, kFastest}); }

// The hill and the start are those of both environments; motor, arithmetic and rewards are each one's own.
class HillCar : public ClassicGroup {
 protected:
  HillCar(Spec spec, int count) : ClassicGroup(std::move(spec), count, kVariables) {}

  void start(int env, NumpyGenerator& random) final {
    column(kPosition)[env] = random.uniform(-0.6, -0.4);
    column(kVelocity)[env] = 0.0;
  }

  void observe(int env, float* row) const final {
    row[kPosition] = static_cast<float>(column(kPosition)[env]);
    row[kVelocity] = static_cast<float>(column(kVelocity)[env]);
  }
};

// Place of the flag, and what a push and the slope add to the speed in one step.
constexpr double kFlag = 0.5;
constexpr double kPush = 0.001;
constexpr double kGravity = 0.0025;

// All of its arithmetic is float64.
class MountainCar final : public HillCar {
 public:
  explicit MountainCar(int count)
      : HillCar({.id = "MountainCar-v0",
                 .observation = {observation()},
                 .action = Discrete{3},
                 .max_episode_steps = 200,
                 .reward_threshold = -110.0,
                 .render_fps = 30},
                count) {}

 private:
  void advance(const EnvActions& actions, float* observation, double* reward, std::uint8_t* terminated) override {
    double* positions = column(kPosition);
    double* velocities = column(kVelocity);
    for (int env = 0; env < size(); ++env) {
      const double push = static_cast<double>(actions.discrete[env] - 1) * kPush;
      double velocity = velocities[env] + (push + std::cos(3.0 * positions[env]) * -kGravity);
      velocity = std::clamp(velocity, -kFastest, kFastest);
      const double position = std::clamp(positions[env] + velocity, kLeftEnd, kRightEnd);
      if (position == kLeftEnd && velocity < 0.0) velocity = 0.0;
      positions[env] = position;
      velocities[env] = velocity;
      observe(env, observation + std::ptrdiff_t{env} * kVariables);
      reward[env] = -1.0;
      terminated[env] = position >= kFlag && velocity >= 0.0;
    }
  }

  void draw(int env, Canvas& canvas) const override { draw_hill_car(canvas, column(kPosition)[env], kFlag); }
};

constexpr double kFlagOfContinuous = 0.45;
constexpr double kPower = 0.0015;

// Change of velocity in one step, rounded as Note [Arithmetic of the continuous car] says.
template <typename Real>
Real pull(Real position, float action) {
  const double slope = 0.0025 * std::cos(static_cast<double>(Real{3} * position));
  if (action > 1.0f) return static_cast<Real>(kPower - slope);
  if (action < -1.0f) return static_cast<Real>(-kPower - slope);
  return static_cast<Real>(action * static_cast<float>(kPower) - static_cast<float>(slope));
}

// One step; true when the car is at the flag.
template <typename Real>
bool move(Real& position, Real& velocity, float action) {
  velocity += pull(position, action);
  if (velocity > Real{kFastest}) velocity = Real{kFastest};
  if (velocity < -Real{kFastest}) velocity = -Real{kFastest};
  position += velocity;
  if (position > Real{kRightEnd}) position = Real{kRightEnd};
  if (position < Real{kLeftEnd}) position = Real{kLeftEnd};
  if (position == Real{kLeftEnd} && velocity < Real{0}) velocity = Real{0};
  return position >= Real{kFlagOfContinuous} && velocity >= Real{0};
}

class MountainCarContinuous final : public HillCar {
 public:
  explicit MountainCarContinuous(int count)
      : HillCar({.id = "MountainCarContinuous-v0",
                 .observation = {observation()},
                 .action = Box{{-1.0}, {1.0}},
                 .max_episode_steps = 999,
                 .reward_threshold = 90.0,
                 .render_fps = 30},
                count) {}

 private:
  void advance(const EnvActions& actions, float* observation, double* reward, std::uint8_t* terminated) override {
    for (int env = 0; env < size(); ++env) {
      const float action = actions.box[env];
      const bool at_flag = elapsed(env) == 0 ? moved<double>(env, action) : moved<float>(env, action);
      observe(env, observation + std::ptrdiff_t{env} * kVariables);
      terminated[env] = at_flag;
      reward[env] = (at_flag ? 100.0 : 0.0) - static_cast<double>(action) * static_cast<double>(action) * 0.1;
    }
  }

  void draw(int env, Canvas& canvas) const override {
    draw_hill_car(canvas, column(kPosition)[env], kFlagOfContinuous);
  }

  template <typename Real>
  bool moved(int env, float action) {
    auto position = static_cast<Real>(column(kPosition)[env]);
    auto velocity = static_cast<Real>(column(kVelocity)[env]);
    const bool at_flag = move(position, velocity, action);
    column(kPosition)[env] = static_cast<float>(position);
    column(kVelocity)[env] = static_cast<float>(velocity);
    return at_flag;
  }
};

}  // namespace

std::unique_ptr<ClassicGroup> make_mountain_car(int count) { return std::make_unique<MountainCar>(count); }

std::unique_ptr<ClassicGroup> make_mountain_car_continuous(int count) {
  return std::make_unique<MountainCarContinuous>(count);
}

}  // namespace tandem::rl
