// HalfCheetah-v5: a cat-like robot in a plane runs forward. Episodes end by their
// time limit alone. Source: gymnasium's HalfCheetahEnv (v5).
#include "tandem/rl/env/mujoco/tasks/float_sums.h"
#include "tandem/rl/env/mujoco/tasks/forward_task.h"
#include "tandem/rl/env/mujoco/tasks/gymnasium_task.h"
#include "tandem/rl/env/mujoco/tasks/start_noise.h"

namespace tandem::rl {
namespace {

class HalfCheetah final : public ForwardTask {
 public:
  static constexpr TaskDefaults kDefaults{.id = "HalfCheetah-v5",
                                          .model = "half_cheetah.xml",
                                          .frame_skip = 5,
                                          .max_episode_steps = 1000,
                                          .reward_threshold = 4800,
                                          .shown = 17,
                                          .actions = 6,
                                          .reach = 1,
                                          .render_fps = 20,
                                          .needs = {.positions = 1, .speeds = 1, .actuators = 1}};
  struct Options : ForwardOptions {
    Options() {
      frame_skip = kDefaults.frame_skip;
      ctrl_cost_weight = 0.1;
      reset_noise_scale = 0.1;
    }
  };
  static OptionsOf<Options> options() { return forward_options<Options>(kDefaults.model); }
  static MetricsOf<HalfCheetah> metrics() { return forward_metrics<HalfCheetah>(); }

  HalfCheetah() : ForwardTask(facts_of(kDefaults)) {}
  void configure(const Options& options) {
    options_ = options;
    use_model(options, kDefaults.model, kDefaults.needs);
  }

 private:
  void start(NumpyGenerator& random, std::span<double> positions, std::span<double> speeds) override {
    add_uniform(random, options_.reset_noise_scale, positions);
    add_normal(random, options_.reset_noise_scale, speeds);
  }
  void observe(std::vector<double>& shown) const override {
    show_state(shown, options_.exclude_current_positions_from_observation, 1);
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

GymnasiumTask half_cheetah() { return gymnasium_task<HalfCheetah>(); }

}  // namespace tandem::rl
