#include <tandem/rl/env/plugin.h>

#include <cmath>
#include <vector>

using namespace tandem::rl;

// Carts on a line, each of which is to stop at 0. One object is all carts of a group.
class Carts {
 public:
  explicit Carts(int count) : place_(count), speed_(count) {}

  static Spec spec() {
    return {.id = "Carts-v0", .observation = {{.shape = {2}}}, .action = Box{{-1}, {1}}, .max_episode_steps = 60};
  }
  void reset(std::size_t cart, NumpyGenerator& random, const ObservationRow& first) {
    place_[cart] = static_cast<float>(random.uniform(-1, 1));
    speed_[cart] = 0;
    first.leaf<float>()[0] = place_[cart];
    first.leaf<float>()[1] = speed_[cart];
  }
  void step(std::span<const float> push, const StepOfAll& out) {
    const std::span<float> seen = out.observation.leaf<float>();  // two numbers a cart
    for (std::size_t cart = 0; cart < place_.size(); ++cart) {
      speed_[cart] = 0.9F * speed_[cart] + 0.1F * push[cart];
      place_[cart] += 0.1F * speed_[cart];
      seen[2 * cart] = place_[cart];
      seen[2 * cart + 1] = speed_[cart];
      out.reward[cart] = -std::abs(place_[cart]);
    }
  }

 private:
  std::vector<float> place_, speed_;
};

TANDEM_ENV_PLUGIN(Carts);
