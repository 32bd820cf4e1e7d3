// MountainCar-v0: a car too weak for the hill has to swing back and forth to reach the flag; pushes left, none, right.
// Source: A. W. Moore, "Efficient Memory-based Learning for Robot Control" (1990), as gymnasium's MountainCarEnv.
#include <algorithm>
#include <cmath>

#include "tandem/rl/env/native/hill_car.h"

namespace tandem::rl {
namespace hill {
namespace {

constexpr double kFlag = 0.5;
constexpr double kPush = 0.001;
constexpr double kGravity = 0.0025;

Spec mountain_car_spec() {
  return {.id = "MountainCar-v0",
          .observation = {observation()},
          .action = Discrete{3},
          .max_episode_steps = 200,
          .reward_threshold = -110.0};
}

class MountainCar final : public Car {
 public:
  explicit MountainCar(int count) : Car(mountain_car_spec(), count) {}

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
};

}  // namespace
}  // namespace hill

std::unique_ptr<ClassicGroup> make_mountain_car(int count) { return std::make_unique<hill::MountainCar>(count); }

}  // namespace tandem::rl
