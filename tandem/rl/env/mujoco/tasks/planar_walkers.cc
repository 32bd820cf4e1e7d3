// Hopper-v5 and Walker2d-v5: a body on one leg or two goes forward in a plane
// without falling. They differ in their bounds of health. Source: gymnasium's HopperEnv and Walker2dEnv (v5).
#include <algorithm>
#include <limits>

#include "tandem/rl/env/mujoco/tasks/float_sums.h"
#include "tandem/rl/env/mujoco/tasks/forward_task.h"
#include "tandem/rl/env/mujoco/tasks/gymnasium_task.h"
#include "tandem/rl/env/mujoco/tasks/start_noise.h"

namespace tandem::rl {
namespace {

/// Of both; angles are those of the trunk, in radians.
struct PlanarWalkerOptions : HealthyOptions {
  double healthy_angle_min = -1, healthy_angle_max = 1;
};
template <typename Options>
[[nodiscard]] OptionsOf<Options> planar_walker_options(const std::string& model) {
  return healthy_options<Options>(model).with(
      {{"healthy_angle_min", &Options::healthy_angle_min, "Health ends below this angle of the trunk, rad."},
       {"healthy_angle_max", &Options::healthy_angle_max, "Health ends above this angle of the trunk, rad."}});
}

/// What both do with their options, which a task hands in.
class PlanarWalker : public ForwardTask {
 protected:
  using ForwardTask::ForwardTask;

  [[nodiscard]] virtual const PlanarWalkerOptions& its() const = 0;
  [[nodiscard]] virtual bool is_healthy() const {
    const double z = qpos()[1], angle = qpos()[2];
    return its().healthy_z_min < z && z < its().healthy_z_max && its().healthy_angle_min < angle &&
           angle < its().healthy_angle_max;
  }

 private:
  void start(NumpyGenerator& random, std::span<double> positions, std::span<double> speeds) override {
    add_uniform(random, its().reset_noise_scale, positions);
    add_uniform(random, its().reset_noise_scale, speeds);
  }
  void observe(std::vector<double>& shown) const override {
    append(shown, qpos().subspan(its().exclude_current_positions_from_observation ? 1 : 0));
    for (const double speed : qvel()) shown.push_back(std::clamp(speed, -10.0, 10.0));
  }
  [[nodiscard]] Mark mark() const override { return {qpos()[0]}; }
  [[nodiscard]] Outcome judge(const Passage& passed, std::span<const float> action) override {
    const bool healthy = is_healthy();
    return {.reward = earn({.x_velocity = passed.velocity(0),
                            .forward_weight = its().forward_reward_weight,
                            .healthy = healthy ? its().healthy_reward : 0,
                            .control_cost = control_cost(its().ctrl_cost_weight, action)}),
            .terminated = !healthy && its().terminate_when_unhealthy};
  }
};

class Hopper final : public PlanarWalker {
 public:
  static constexpr TaskDefaults kDefaults{.id = "Hopper-v5",
                                          .model = "hopper.xml",
                                          .frame_skip = 4,
                                          .max_episode_steps = 1000,
                                          .reward_threshold = 3800,
                                          .shown = 11,
                                          .actions = 3,
                                          .reach = 1,
                                          .render_fps = 125,
                                          .needs = {.positions = 3, .speeds = 1, .actuators = 1}};
  struct Options : PlanarWalkerOptions {
    Options() {
      frame_skip = kDefaults.frame_skip;
      ctrl_cost_weight = 1e-3;
      reset_noise_scale = 5e-3;
      healthy_z_min = 0.7;
      healthy_angle_min = -0.2;
      healthy_angle_max = 0.2;
    }
    double healthy_state_min = -100, healthy_state_max = 100;
  };
  static OptionsOf<Options> options() {
    return planar_walker_options<Options>(kDefaults.model)
        .with(
            {{"healthy_state_min", &Options::healthy_state_min,
              "Health ends when an angle or a speed falls below this."},
             {"healthy_state_max", &Options::healthy_state_max, "Health ends when an angle or a speed exceeds this."}});
  }
  static MetricsOf<Hopper> metrics() { return healthy_metrics<Hopper>(); }

  Hopper() : PlanarWalker(facts_of(kDefaults)) {}
  void configure(const Options& options) {
    options_ = options;
    use_model(options, kDefaults.model, kDefaults.needs);
  }

 private:
  [[nodiscard]] const PlanarWalkerOptions& its() const override { return options_; }
  [[nodiscard]] bool is_healthy() const override {
    const auto within = [this](double x) { return options_.healthy_state_min < x && x < options_.healthy_state_max; };
    return PlanarWalker::is_healthy() && std::ranges::all_of(qpos().subspan(2), within) &&
           std::ranges::all_of(qvel(), within);
  }

  Options options_;
};

class Walker2d final : public PlanarWalker {
 public:
  static constexpr TaskDefaults kDefaults{.id = "Walker2d-v5",
                                          .model = "walker2d_v5.xml",
                                          .frame_skip = 4,
                                          .max_episode_steps = 1000,
                                          .reward_threshold = {},
                                          .shown = 17,
                                          .actions = 6,
                                          .reach = 1,
                                          .render_fps = 125,
                                          .needs = {.positions = 3, .speeds = 1, .actuators = 1}};
  struct Options : PlanarWalkerOptions {
    Options() {
      frame_skip = kDefaults.frame_skip;
      ctrl_cost_weight = 1e-3;
      reset_noise_scale = 5e-3;
      healthy_z_min = 0.8;
      healthy_z_max = 2;
    }
  };
  static OptionsOf<Options> options() { return planar_walker_options<Options>(kDefaults.model); }
  static MetricsOf<Walker2d> metrics() { return healthy_metrics<Walker2d>(); }

  Walker2d() : PlanarWalker(facts_of(kDefaults)) {}
  void configure(const Options& options) {
    options_ = options;
    use_model(options, kDefaults.model, kDefaults.needs);
  }

 private:
  [[nodiscard]] const PlanarWalkerOptions& its() const override { return options_; }

  Options options_;
};

}  // namespace

GymnasiumTask hopper() { return gymnasium_task<Hopper>(); }
GymnasiumTask walker2d() { return gymnasium_task<Walker2d>(); }

}  // namespace tandem::rl
