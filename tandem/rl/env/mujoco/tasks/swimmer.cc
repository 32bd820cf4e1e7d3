// Swimmer-v5: a chain of three links swims forward in a viscous fluid. Episodes end by
// their time limit alone. Source: gymnasium's SwimmerEnv (v5).
#include "tandem/rl/env/mujoco/tasks/float_sums.h"
#include "tandem/rl/env/mujoco/tasks/forward_task.h"
#include "tandem/rl/env/mujoco/tasks/gymnasium_task.h"
#include "tandem/rl/env/mujoco/tasks/start_noise.h"

namespace tandem::rl {
namespace {

class Swimmer final : public ForwardTask {
 public:
  static constexpr TaskDefaults kDefaults{.id = "Swimmer-v5",
                                          .model = "swimmer.xml",
                                          .frame_skip = 4,
                                          .max_episode_steps = 1000,
                                          .reward_threshold = 360,
                                          .shown = 8,
                                          .actions = 2,
                                          .reach = 1,
                                          .render_fps = 25,
                                          .needs = {.positions = 2, .speeds = 1, .actuators = 1}};
  struct Options : ForwardOptions {
    Options() {
      frame_skip = kDefaults.frame_skip;
      ctrl_cost_weight = 1e-4;
      reset_noise_scale = 0.1;
    }
  };
  static OptionsOf<Options> options() { return forward_options<Options>(kDefaults.model); }
  static MetricsOf<Swimmer> metrics() { return forward_metrics<Swimmer>(); }

  Swimmer() : ForwardTask(facts_of(kDefaults)) {}
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
    show_state(shown, options_.exclude_current_positions_from_observation, 2);
  }
  [[nodiscard]] Mark mark() const override { return {qpos()[0]}; }
  [[nodiscard]] Outcome judge(const Passage& passed, std::span<const float> action) override {
    return {.reward = earn({.x_velocity = passed.velocity(0),
                            .forward_weight = options_.forward_reward_weight,
                            .control_cost = control_cost(options_.ctrl_cost_weight, action)})};
  }

  Options options_;
};

}  // namespace

GymnasiumTask swimmer() { return gymnasium_task<Swimmer>(); }

}  // namespace tandem::rl
