// InvertedPendulum-v5 and InvertedDoublePendulum-v5: a cart keeps one pole, or two
// poles on each other, upright. Source: gymnasium's InvertedPendulumEnv and InvertedDoublePendulumEnv (v5).
#include <algorithm>
#include <cmath>

#include "tandem/rl/env/env_metrics.h"
#include "tandem/rl/env/mujoco/tasks/gymnasium_task.h"
#include "tandem/rl/env/mujoco/tasks/mujoco_task.h"
#include "tandem/rl/env/mujoco/tasks/start_noise.h"

namespace tandem::rl {
namespace {

class InvertedPendulum final : public MujocoTask {
 public:
  static constexpr TaskDefaults kDefaults{.id = "InvertedPendulum-v5",
                                          .model = "inverted_pendulum.xml",
                                          .frame_skip = 2,
                                          .max_episode_steps = 1000,
                                          .reward_threshold = 950,
                                          .shown = 4,
                                          .actions = 1,
                                          .reach = 3,
                                          .render_fps = 25,
                                          .needs = {.positions = 2, .speeds = 1, .actuators = 1},
                                          .camera_distance = 2.04};
  struct Options : MujocoOptions {
    Options() { frame_skip = kDefaults.frame_skip; }
    double reset_noise_scale = 0.01;
  };
  static OptionsOf<Options> options() {
    return mujoco_options<Options>(kDefaults.model)
        .with({{"reset_noise_scale", &Options::reset_noise_scale, "How far first states differ.", {.least = 0}}});
  }

  InvertedPendulum() : MujocoTask(facts_of(kDefaults)) {}
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
    append(shown, qpos());
    append(shown, qvel());
  }
  [[nodiscard]] Outcome judge(const Passage& /*passed*/, std::span<const float> /*action*/) override {
    const auto finite = [](double x) { return std::isfinite(x); };
    const bool upright =
        std::ranges::all_of(qpos(), finite) && std::ranges::all_of(qvel(), finite) && std::abs(qpos()[1]) <= kFarthest;
    return {.reward = upright ? 1.0 : 0.0, .terminated = !upright};
  }

  static constexpr double kFarthest = 0.2;  // radians

  Options options_;
};

class InvertedDoublePendulum final : public MujocoTask {
 public:
  static constexpr TaskDefaults kDefaults{.id = "InvertedDoublePendulum-v5",
                                          .model = "inverted_double_pendulum.xml",
                                          .frame_skip = 5,
                                          .max_episode_steps = 1000,
                                          .reward_threshold = 9100,
                                          .shown = 9,
                                          .actions = 1,
                                          .reach = 1,
                                          .render_fps = 20,
                                          .needs = {.positions = 3, .speeds = 3, .actuators = 1, .sites = 1}};
  struct Options : MujocoOptions {
    Options() { frame_skip = kDefaults.frame_skip; }
    double healthy_reward = 10;
    double reset_noise_scale = 0.1;
  };
  static OptionsOf<Options> options() {
    return mujoco_options<Options>(kDefaults.model)
        .with({{"healthy_reward", &Options::healthy_reward, "Reward of a step whose end is upright."},
               {"reset_noise_scale", &Options::reset_noise_scale, "How far first states differ.", {.least = 0}}});
  }
  static MetricsOf<InvertedDoublePendulum> metrics() {
    return {{"distance_penalty", &InvertedDoublePendulum::distance_penalty, "Reward of a step for the tip's place.",
             Over::kSteps},
            {"velocity_penalty", &InvertedDoublePendulum::velocity_penalty, "Reward of a step for the poles' speeds.",
             Over::kSteps}};
  }

  InvertedDoublePendulum() : MujocoTask(facts_of(kDefaults)) {}
  void configure(const Options& options) {
    options_ = options;
    use_model(options, kDefaults.model, kDefaults.needs);
  }
  [[nodiscard]] double distance_penalty() const {
    const double x = tip()[0], y = tip()[2];
    return -(0.01 * (x * x) + (y - 2) * (y - 2));
  }
  [[nodiscard]] double velocity_penalty() const {
    const double first = qvel()[1], second = qvel()[2];
    return -(1e-3 * (first * first) + 5e-3 * (second * second));
  }

 private:
  void start(NumpyGenerator& random, std::span<double> positions, std::span<double> speeds) override {
    add_uniform(random, options_.reset_noise_scale, positions);
    add_normal(random, options_.reset_noise_scale, speeds);
  }
  void observe(std::vector<double>& shown) const override {
    const auto angles = qpos().subspan(1);
    shown.push_back(qpos()[0]);
    for (const double angle : angles) shown.push_back(std::sin(angle));
    for (const double angle : angles) shown.push_back(std::cos(angle));
    for (const double speed : qvel()) shown.push_back(std::clamp(speed, -10.0, 10.0));
    shown.push_back(std::clamp(data().qfrc_constraint[0], -10.0, 10.0));
  }
  [[nodiscard]] Outcome judge(const Passage& /*passed*/, std::span<const float> /*action*/) override {
    const bool fallen = tip()[2] <= 1;
    return {.reward = (fallen ? 0 : options_.healthy_reward) + distance_penalty() + velocity_penalty(),
            .terminated = fallen};
  }
  // The end of the upper pole.
  [[nodiscard]] std::span<const double> tip() const { return part(data().site_xpos, 3); }

  Options options_;
};

}  // namespace

GymnasiumTask inverted_pendulum() { return gymnasium_task<InvertedPendulum>(); }
GymnasiumTask inverted_double_pendulum() { return gymnasium_task<InvertedDoublePendulum>(); }

}  // namespace tandem::rl
