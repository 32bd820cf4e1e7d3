// MountainCar-v0: a car too weak for the hill has to swing back and forth to reach the flag; pushes left, none, right.
// Source: A. W. Moore, "Efficient Memory-based Learning for Robot Control" (1990), as gymnasium's MountainCarEnv.
#include <algorithm>
#include <cmath>

#include "tandem/rl/env/classic_group.h"

namespace tandem::rl {
namespace {

constexpr double kLeftEnd = -1.2;
constexpr double kRightEnd = 0.6;
constexpr double kFastest = 0.07;
constexpr double kFlag = 0.5;
constexpr double kPush = 0.001;
constexpr double kGravity = 0.0025;

enum Variable { kPosition, kVelocity, kVariables };

Spec mountain_car_spec() {
  return {.id = "MountainCar-v0",
          .observation = {bounded_observation({kLeftEnd, -kFastest}, {kRightEnd, kFastest})},
          .action = Discrete{3},
          .max_episode_steps = 200,
          .reward_threshold = -110.0};
}

class MountainCar final : public ClassicGroup {
 public:
  explicit MountainCar(int count) : ClassicGroup(mountain_car_spec(), count, kVariables) {}

 private:
  void start(int env, NumpyGenerator& random) override {
    column(kPosition)[env] = random.uniform(-0.6, -0.4);
    column(kVelocity)[env] = 0.0;
  }

  void observe(int env, float* row) const override {
    row[kPosition] = static_cast<float>(column(kPosition)[env]);
    row[kVelocity] = static_cast<float>(column(kVelocity)[env]);
  }

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

std::unique_ptr<ClassicGroup> make_mountain_car(int count) { return std::make_unique<MountainCar>(count); }

}  // namespace tandem::rl
