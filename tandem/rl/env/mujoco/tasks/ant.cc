// Ant-v5: a body on four legs goes forward without falling over, and is charged for
// contacts. With a model of one's own it serves other robots, as in Gymnasium: `main_body` is the one whose speed is
// paid. Source: gymnasium's AntEnv (v5).
#include <algorithm>
#include <cmath>
#include <string>

#include "tandem/rl/env/mujoco/tasks/float_sums.h"
#include "tandem/rl/env/mujoco/tasks/forward_task.h"
#include "tandem/rl/env/mujoco/tasks/gymnasium_task.h"
#include "tandem/rl/env/mujoco/tasks/start_noise.h"

namespace tandem::rl {
namespace {

class Ant final : public ForwardTask {
 public:
  static constexpr TaskDefaults kDefaults{.id = "Ant-v5",
                                          .model = "ant.xml",
                                          .frame_skip = 5,
                                          .max_episode_steps = 1000,
                                          .reward_threshold = 6000,
                                          .shown = 105,
                                          .actions = 8,
                                          .reach = 1,
                                          .render_fps = 20,
                                          .needs = {.positions = 3, .speeds = 1, .actuators = 1},
                                          .contact_forces = true};
  struct Options : HealthyOptions {
    Options() {
      frame_skip = kDefaults.frame_skip;
      ctrl_cost_weight = 0.5;
      reset_noise_scale = 0.1;
      healthy_z_min = 0.2;
      healthy_z_max = 1;
    }
    double contact_cost_weight = 5e-4;
    double contact_force_min = -1, contact_force_max = 1;
    std::string main_body = "1";
    bool include_cfrc_ext_in_observation = true;
  };
  static OptionsOf<Options> options();
  static MetricsOf<Ant> metrics() { return contact_metrics<Ant>(); }

  Ant() : ForwardTask(facts_of(kDefaults)) {}
  void configure(const Options& options);

 private:
  void start(NumpyGenerator& random, std::span<double> positions, std::span<double> speeds) override;
  void observe(std::vector<double>& shown) const override;
  [[nodiscard]] Mark mark() const override { return {position_of(main_body_)[0]}; }
  [[nodiscard]] Outcome judge(const Passage& passed, std::span<const float> action) override;
  [[nodiscard]] bool is_healthy() const;
  [[nodiscard]] double cut(double force) const {
    return std::min(std::max(force, options_.contact_force_min), options_.contact_force_max);
  }

  Options options_;
  int main_body_ = 1;
};

OptionsOf<Ant::Options> Ant::options() {
  return healthy_options<Options>(kDefaults.model)
      .with({{"contact_cost_weight", &Options::contact_cost_weight, "Cost of the squared forces of contacts."},
             {"contact_force_min", &Options::contact_force_min, "Forces of contacts are cut here."},
             {"contact_force_max", &Options::contact_force_max, "Forces of contacts are cut here."},
             {"main_body", &Options::main_body, "The body whose speed is paid: its name, or its number."},
             {"include_cfrc_ext_in_observation", &Options::include_cfrc_ext_in_observation,
              "Whether forces of contacts are shown."}});
}

void Ant::configure(const Options& options) {
  const bool is_other = use_model(options, kDefaults.model, kDefaults.needs) || options.main_body != options_.main_body;
  options_ = options;
  if (is_other) main_body_ = body_of(model(), options.main_body);
}

void Ant::start(NumpyGenerator& random, std::span<double> positions, std::span<double> speeds) {
  add_uniform(random, options_.reset_noise_scale, positions);
  add_normal(random, options_.reset_noise_scale, speeds);
}

void Ant::observe(std::vector<double>& shown) const {
  show_state(shown, options_.exclude_current_positions_from_observation, 2);
  if (!options_.include_cfrc_ext_in_observation) return;
  for (const double force : contact_forces().subspan(6)) shown.push_back(cut(force));
}

bool Ant::is_healthy() const {
  const auto finite = [](double x) { return std::isfinite(x); };
  return std::ranges::all_of(qpos(), finite) && std::ranges::all_of(qvel(), finite) &&
         options_.healthy_z_min <= qpos()[2] && qpos()[2] <= options_.healthy_z_max;
}

MujocoTask::Outcome Ant::judge(const Passage& passed, std::span<const float> action) {
  double contacts = 0;
  for (const double force : contact_forces()) contacts += cut(force) * cut(force);
  const bool healthy = is_healthy();
  return {.reward = earn({.x_velocity = passed.velocity(0),
                          .forward_weight = options_.forward_reward_weight,
                          .healthy = healthy ? options_.healthy_reward : 0,
                          .control_cost = control_cost(options_.ctrl_cost_weight, action),
                          .contact_cost = options_.contact_cost_weight * contacts}),
          .terminated = !healthy && options_.terminate_when_unhealthy};
}

}  // namespace

GymnasiumTask ant() { return gymnasium_task<Ant>(); }

}  // namespace tandem::rl
