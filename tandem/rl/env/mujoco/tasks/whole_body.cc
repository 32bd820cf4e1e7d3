// Humanoid-v5 and HumanoidStandup-v5: a body with arms and legs runs, or gets up.
// Both show the same: state, inertias, velocities and forces, each of which may be left out. Source: gymnasium's
// HumanoidEnv and HumanoidStandupEnv (v5).
#include <algorithm>
#include <limits>
#include <string>

#include "tandem/rl/env/mujoco/tasks/forward_task.h"
#include "tandem/rl/env/mujoco/tasks/gymnasium_task.h"
#include "tandem/rl/env/mujoco/tasks/start_noise.h"

namespace tandem::rl {
namespace {

/// What is shown.
struct WholeBodyView {
  bool include_cinert_in_observation = true;
  bool include_cvel_in_observation = true;
  bool include_qfrc_actuator_in_observation = true;
  bool include_cfrc_ext_in_observation = true;
};
template <typename Options>
[[nodiscard]] OptionsOf<Options> whole_body_view() {
  return {{"include_cinert_in_observation", &Options::include_cinert_in_observation,
           "Whether masses and inertias of the parts are shown."},
          {"include_cvel_in_observation", &Options::include_cvel_in_observation,
           "Whether velocities of the parts are shown."},
          {"include_qfrc_actuator_in_observation", &Options::include_qfrc_actuator_in_observation,
           "Whether forces of the actuators are shown."},
          {"include_cfrc_ext_in_observation", &Options::include_cfrc_ext_in_observation,
           "Whether forces of contacts are shown."}};
}

/// The costs and the view that both have.
class WholeBody : public ForwardTask {
 protected:
  using ForwardTask::ForwardTask;

  void show(std::vector<double>& shown, const WholeBodyView& view, bool hides_place) const {
    show_state(shown, hides_place, 2);
    if (view.include_cinert_in_observation) append(shown, inertias());
    if (view.include_cvel_in_observation) append(shown, velocities());
    if (view.include_qfrc_actuator_in_observation)
      append(shown, part(data().qfrc_actuator, model().nv).subspan(6));  // without those of the free joint
    if (view.include_cfrc_ext_in_observation) append(shown, contact_forces().subspan(6));
  }
  static double square_sum(std::span<const double> values) {
    double sum = 0;
    for (const double value : values) sum += value * value;
    return sum;
  }
  /// The control is in float64 here, unlike in other tasks.
  [[nodiscard]] double effort() const { return square_sum(part(data().ctrl, model().nu)); }
  [[nodiscard]] double contact_cost(double weight, double least, double most) const {
    return std::min(std::max(weight * square_sum(contact_forces()), least), most);
  }
  /// Where the body's centre of mass is along x.
  [[nodiscard]] double mass_centre() const {
    double moment = 0, mass = 0;
    for (std::ptrdiff_t body = 0; body < model().nbody; ++body) {
      moment += model().body_mass[body] * data().xipos[3 * body];
      mass += model().body_mass[body];
    }
    return moment / mass;
  }
};

class Humanoid final : public WholeBody {
 public:
  static constexpr TaskDefaults kDefaults{.id = "Humanoid-v5",
                                          .model = "humanoid.xml",
                                          .frame_skip = 5,
                                          .max_episode_steps = 1000,
                                          .reward_threshold = {},
                                          .shown = 348,
                                          .actions = 17,
                                          .reach = 0.4,
                                          .render_fps = 67,
                                          .needs = {.positions = 3, .speeds = 6, .actuators = 1},
                                          .contact_forces = true};
  struct Options : HealthyOptions, WholeBodyView {
    Options() {
      frame_skip = kDefaults.frame_skip;
      forward_reward_weight = 1.25;
      ctrl_cost_weight = 0.1;
      reset_noise_scale = 1e-2;
      healthy_reward = 5;
      healthy_z_min = 1;
      healthy_z_max = 2;
    }
    double contact_cost_weight = 5e-7;
    double contact_cost_min = -std::numeric_limits<double>::infinity(), contact_cost_max = 10;
  };
  static OptionsOf<Options> options() {
    return healthy_options<Options>(kDefaults.model)
        .with({{"contact_cost_weight", &Options::contact_cost_weight, "Cost of the squared forces of contacts."},
               {"contact_cost_min", &Options::contact_cost_min, "The cost of contacts is at least this."},
               {"contact_cost_max", &Options::contact_cost_max, "The cost of contacts is at most this."}})
        .with(whole_body_view<Options>());
  }
  static MetricsOf<Humanoid> metrics() { return contact_metrics<Humanoid>(); }

  Humanoid() : WholeBody(facts_of(kDefaults)) {}
  void configure(const Options& options) {
    options_ = options;
    use_model(options, kDefaults.model, kDefaults.needs);
  }

 private:
  void start(NumpyGenerator& random, std::span<double> positions, std::span<double> speeds) override {
    add_uniform(random, options_.reset_noise_scale, positions);
    add_uniform(random, options_.reset_noise_scale, speeds);
  }
  void observe(std::vector<double>& shown) const override {
    show(shown, options_, options_.exclude_current_positions_from_observation);
  }
  [[nodiscard]] Mark mark() const override { return {mass_centre()}; }
  [[nodiscard]] Outcome judge(const Passage& passed, std::span<const float> /*action*/) override {
    const double z = qpos()[2];
    const bool healthy = options_.healthy_z_min < z && z < options_.healthy_z_max;
    return {.reward = earn({.x_velocity = passed.velocity(0),
                            .forward_weight = options_.forward_reward_weight,
                            .healthy = healthy ? options_.healthy_reward : 0,
                            .control_cost = options_.ctrl_cost_weight * effort(),
                            .contact_cost = contact_cost(options_.contact_cost_weight, options_.contact_cost_min,
                                                         options_.contact_cost_max)}),
            .terminated = !healthy && options_.terminate_when_unhealthy};
  }

  Options options_;
};

/// `uph_cost_weight` has no effect, in Gymnasium neither.
class HumanoidStandup final : public WholeBody {
 public:
  static constexpr TaskDefaults kDefaults{.id = "HumanoidStandup-v5",
                                          .model = "humanoidstandup.xml",
                                          .frame_skip = 5,
                                          .max_episode_steps = 1000,
                                          .reward_threshold = {},
                                          .shown = 348,
                                          .actions = 17,
                                          .reach = 0.4,
                                          .render_fps = 67,
                                          .needs = {.positions = 3, .speeds = 6, .actuators = 1},
                                          .contact_forces = true};
  struct Options : MujocoOptions, WholeBodyView {
    Options() { frame_skip = kDefaults.frame_skip; }
    double uph_cost_weight = 1;
    double ctrl_cost_weight = 0.1;
    double impact_cost_weight = 0.5e-6;
    double impact_cost_min = -std::numeric_limits<double>::infinity(), impact_cost_max = 10;
    double reset_noise_scale = 1e-2;
    bool exclude_current_positions_from_observation = true;
  };
  static OptionsOf<Options> options() {
    return mujoco_options<Options>(kDefaults.model)
        .with({{"uph_cost_weight", &Options::uph_cost_weight, "Has no effect, as in Gymnasium."},
               {"ctrl_cost_weight", &Options::ctrl_cost_weight, "Cost of the squared action."},
               {"impact_cost_weight", &Options::impact_cost_weight, "Cost of the squared forces of contacts."},
               {"impact_cost_min", &Options::impact_cost_min, "The cost of contacts is at least this."},
               {"impact_cost_max", &Options::impact_cost_max, "The cost of contacts is at most this."},
               {"reset_noise_scale", &Options::reset_noise_scale, "How far first states differ.", {.least = 0}},
               {"exclude_current_positions_from_observation", &Options::exclude_current_positions_from_observation,
                "Whether the place on the plane is left out of observations."}})
        .with(whole_body_view<Options>());
  }
  static MetricsOf<HumanoidStandup> metrics() {
    return {{"height", &HumanoidStandup::height, "Height of the trunk at the end, m."},
            {"reward_linup", &HumanoidStandup::reward_linup, "Reward of a step for height.", Over::kSteps},
            {"reward_quadctrl", &HumanoidStandup::reward_quadctrl, "Reward of a step for its action.", Over::kSteps},
            {"reward_impact", &HumanoidStandup::reward_impact, "Reward of a step for contacts.", Over::kSteps}};
  }

  HumanoidStandup() : WholeBody(facts_of(kDefaults)) {}
  void configure(const Options& options) {
    options_ = options;
    use_model(options, kDefaults.model, kDefaults.needs);
  }
  [[nodiscard]] double height() const { return qpos()[2]; }
  [[nodiscard]] double reward_linup() const { return qpos()[2] / model().opt.timestep; }
  [[nodiscard]] double reward_quadctrl() const { return -options_.ctrl_cost_weight * effort(); }
  [[nodiscard]] double reward_impact() const {
    return -contact_cost(options_.impact_cost_weight, options_.impact_cost_min, options_.impact_cost_max);
  }

 private:
  void start(NumpyGenerator& random, std::span<double> positions, std::span<double> speeds) override {
    add_uniform(random, options_.reset_noise_scale, positions);
    add_uniform(random, options_.reset_noise_scale, speeds);
  }
  void observe(std::vector<double>& shown) const override {
    show(shown, options_, options_.exclude_current_positions_from_observation);
  }
  [[nodiscard]] Outcome judge(const Passage& /*passed*/, std::span<const float> /*action*/) override {
    return {.reward = reward_linup() + reward_quadctrl() + reward_impact() + 1};
  }

  Options options_;
};

}  // namespace

GymnasiumTask humanoid() { return gymnasium_task<Humanoid>(); }
GymnasiumTask humanoid_standup() { return gymnasium_task<HumanoidStandup>(); }

}  // namespace tandem::rl
