// rl/env/mujoco/tasks/forward_task.h: the base of the tasks that are paid for moving forward along x: their options and
// the parts of their rewards.
//
// Threads: single-thread, as every environment.
#pragma once
#include <limits>
#include <string>

#include "tandem/rl/env/env_metrics.h"
#include "tandem/rl/env/mujoco/tasks/gymnasium_task.h"
#include "tandem/rl/env/mujoco/tasks/mujoco_task.h"

namespace tandem::rl {

/// Each task sets its own defaults.
struct ForwardOptions : MujocoOptions {
  double forward_reward_weight = 1;
  double ctrl_cost_weight = 0;
  double reset_noise_scale = 0;
  bool exclude_current_positions_from_observation = true;
};
template <typename Options>
[[nodiscard]] OptionsOf<Options> forward_options(const std::string& model) {
  return mujoco_options<Options>(model).with(
      {{"forward_reward_weight", &Options::forward_reward_weight, "Reward for a metre a second along x."},
       {"ctrl_cost_weight", &Options::ctrl_cost_weight, "Cost of the squared action."},
       {"reset_noise_scale", &Options::reset_noise_scale, "How far first states differ.", {.least = 0}},
       {"exclude_current_positions_from_observation", &Options::exclude_current_positions_from_observation,
        "Whether the place on the plane is left out of observations."}});
}

/// Of the tasks that fall. Infinite bounds stand for none.
struct HealthyOptions : ForwardOptions {
  double healthy_reward = 1;
  bool terminate_when_unhealthy = true;
  double healthy_z_min = -std::numeric_limits<double>::infinity();
  double healthy_z_max = std::numeric_limits<double>::infinity();
};
template <typename Options>
[[nodiscard]] OptionsOf<Options> healthy_options(const std::string& model) {
  return forward_options<Options>(model).with(
      {{"healthy_reward", &Options::healthy_reward, "Reward of a step in health."},
       {"terminate_when_unhealthy", &Options::terminate_when_unhealthy, "Whether the end of health ends the episode."},
       {"healthy_z_min", &Options::healthy_z_min, "Health ends below this height, m."},
       {"healthy_z_max", &Options::healthy_z_max, "Health ends above this height, m."}});
}

/// What the last step was paid for, as Gymnasium's `info` has it, and the sum.
class ForwardTask : public MujocoTask {
 public:
  using MujocoTask::MujocoTask;

  [[nodiscard]] double x_position() const { return qpos()[0]; }
  [[nodiscard]] double x_velocity() const { return x_velocity_; }
  [[nodiscard]] double reward_forward() const { return reward_forward_; }
  [[nodiscard]] double reward_ctrl() const { return -control_cost_; }
  [[nodiscard]] double reward_contact() const { return -contact_cost_; }
  [[nodiscard]] double reward_survive() const { return healthy_reward_; }

 protected:
  struct Pay {
    double x_velocity, forward_weight, healthy = 0, control_cost = 0, contact_cost = 0;
  };
  double earn(const Pay& pay) {
    x_velocity_ = pay.x_velocity;
    reward_forward_ = pay.forward_weight * pay.x_velocity;
    healthy_reward_ = pay.healthy;
    control_cost_ = pay.control_cost;
    contact_cost_ = pay.contact_cost;
    return (reward_forward_ + healthy_reward_) - (control_cost_ + contact_cost_);
  }

  /// The state without the first `hidden` numbers of the position.
  void show_state(std::vector<double>& shown, bool is_hidden, std::size_t hidden) const {
    append(shown, qpos().subspan(is_hidden ? hidden : 0));
    append(shown, qvel());
  }

 private:
  double x_velocity_ = 0, reward_forward_ = 0, healthy_reward_ = 0, control_cost_ = 0, contact_cost_ = 0;
};

/// The parts that each of these tasks has; the first two are shown by the progress of a run.
template <typename Env>
[[nodiscard]] MetricsOf<Env> forward_metrics() {
  return {{"x_position", &Env::x_position, "Where the episode ended, m."},
          {"x_velocity", &Env::x_velocity, "Speed along x, m/s.", Over::kSteps},
          {"reward_forward", &Env::reward_forward, "Reward of a step for moving.", Over::kSteps},
          {"reward_ctrl", &Env::reward_ctrl, "Reward of a step for its action.", Over::kSteps}};
}
template <typename Env>
[[nodiscard]] MetricsOf<Env> healthy_metrics() {
  return forward_metrics<Env>().with(
      {{"reward_survive", &Env::reward_survive, "Reward of a step for health.", Over::kSteps}});
}
template <typename Env>
[[nodiscard]] MetricsOf<Env> contact_metrics() {
  return healthy_metrics<Env>().with(
      {{"reward_contact", &Env::reward_contact, "Reward of a step for contacts.", Over::kSteps}});
}

}  // namespace tandem::rl
