// CartPole-v1: keep a pole upright on a cart that is pushed left or right.
// Source: A. G. Barto, R. S. Sutton, C. W. Anderson, "Neuronlike Adaptive Elements That Can Solve Difficult Learning
// Control Problems" (1983), with the equations of R. V. Florian (2007) and an Euler step, as gymnasium's CartPoleEnv.
#include <limits>

#include "tandem/rl/env/native/cartpole_dynamics.h"
#include "tandem/rl/env/native/classic_group.h"

namespace tandem::rl {
namespace {

enum Variable { kX, kXDot, kTheta, kThetaDot, kVariables };

Spec cartpole_spec() {
  const double none = std::numeric_limits<double>::infinity();
  return {.id = "CartPole-v1",
          .observation = {bounded_observation({-2 * kCartPoleEdge, -none, -2 * kCartPoleFallen, -none},
                                              {2 * kCartPoleEdge, none, 2 * kCartPoleFallen, none})},
          .action = Discrete{2},
          .max_episode_steps = 500,
          .reward_threshold = 475.0};
}

// Columns: place and speed of the cart, angle and angular speed of the pole, which are shown as they are. The step of
// all environments is one call of cartpole_dynamics.h.
class CartPole final : public ClassicGroup {
 public:
  explicit CartPole(int count) : ClassicGroup(cartpole_spec(), count, kVariables) {}

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

  CartStep* const step_ = cart_step_of(detect_instruction_set());
};

}  // namespace

std::unique_ptr<ClassicGroup> make_cartpole(int count) { return std::make_unique<CartPole>(count); }

}  // namespace tandem::rl
