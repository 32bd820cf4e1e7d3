// Reacher-v5 and Pusher-v5: an arm brings its tip to a goal, or an object there. Episodes
// end by their time limit alone. Source: gymnasium's ReacherEnv and PusherEnv (v5).
#include <array>
#include <cmath>

#include "tandem/rl/env/env_metrics.h"
#include "tandem/rl/env/mujoco/tasks/float_sums.h"
#include "tandem/rl/env/mujoco/tasks/gymnasium_task.h"
#include "tandem/rl/env/mujoco/tasks/mujoco_task.h"
#include "tandem/rl/env/mujoco/tasks/start_noise.h"

namespace tandem::rl {
namespace {

/// Distances between bodies.
class ArmTask : public MujocoTask {
 protected:
  using MujocoTask::MujocoTask;

  [[nodiscard]] double distance(int from, int to) const {
    double sum = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const double way = position_of(from)[i] - position_of(to)[i];
      sum += way * way;
    }
    return std::sqrt(sum);
  }
};

class Reacher final : public ArmTask {
 public:
  static constexpr TaskDefaults kDefaults{.id = "Reacher-v5",
                                          .model = "reacher.xml",
                                          .frame_skip = 2,
                                          .max_episode_steps = 50,
                                          .reward_threshold = -3.75,
                                          .shown = 10,
                                          .actions = 2,
                                          .reach = 1,
                                          .render_fps = 50,
                                          .needs = {.positions = 4, .speeds = 4, .actuators = 1}};
  struct Options : MujocoOptions {
    Options() { frame_skip = kDefaults.frame_skip; }
    double reward_dist_weight = 1, reward_control_weight = 1;
  };
  static OptionsOf<Options> options() {
    return mujoco_options<Options>(kDefaults.model)
        .with({{"reward_dist_weight", &Options::reward_dist_weight, "Cost of a metre between tip and goal."},
               {"reward_control_weight", &Options::reward_control_weight, "Cost of the squared action."}});
  }
  static MetricsOf<Reacher> metrics() {
    return {{"distance", &Reacher::goal_distance, "From the tip to the goal at the end, m."},
            {"reward_dist", &Reacher::reward_dist, "Reward of a step for the distance.", Over::kSteps},
            {"reward_ctrl", &Reacher::reward_ctrl, "Reward of a step for its action.", Over::kSteps}};
  }

  Reacher() : ArmTask(facts_of(kDefaults)) {}
  void configure(const Options& options) {
    options_ = options;
    if (!use_model(options, kDefaults.model, kDefaults.needs)) return;
    tip_ = body_of(model(), "fingertip");
    goal_ = body_of(model(), "target");
  }
  [[nodiscard]] double goal_distance() const { return distance(tip_, goal_); }
  [[nodiscard]] double reward_dist() const { return -goal_distance() * options_.reward_dist_weight; }
  [[nodiscard]] double reward_ctrl() const { return -control_cost_; }

 private:
  void start(NumpyGenerator& random, std::span<double> positions, std::span<double> speeds) override {
    add_uniform(random, 0.1, positions);
    std::array<double, 2> goal{};
    do {
      for (double& place : goal) place = random.uniform(-0.2, 0.2);
    } while (!(std::sqrt(goal[0] * goal[0] + goal[1] * goal[1]) < 0.2));
    std::ranges::copy(goal, positions.last(2).begin());
    add_uniform(random, 0.005, speeds);
    std::ranges::fill(speeds.last(2), 0.0);
  }
  void observe(std::vector<double>& shown) const override {
    for (const double angle : qpos().first(2)) shown.push_back(std::cos(angle));
    for (const double angle : qpos().first(2)) shown.push_back(std::sin(angle));
    append(shown, qpos().subspan(2));
    append(shown, qvel().first(2));
    for (std::size_t i = 0; i < 2; ++i) shown.push_back(position_of(tip_)[i] - position_of(goal_)[i]);
  }
  [[nodiscard]] Outcome judge(const Passage& /*passed*/, std::span<const float> action) override {
    control_cost_ = control_cost(options_.reward_control_weight, action);
    return {.reward = reward_dist() + reward_ctrl()};
  }

  Options options_;
  int tip_ = 0, goal_ = 0;
  double control_cost_ = 0;
};

class Pusher final : public ArmTask {
 public:
  static constexpr TaskDefaults kDefaults{.id = "Pusher-v5",
                                          .model = "pusher_v5.xml",
                                          .frame_skip = 5,
                                          .max_episode_steps = 100,
                                          .reward_threshold = 0,
                                          .shown = 23,
                                          .actions = 7,
                                          .reach = 2,
                                          .render_fps = 20,
                                          .needs = {.positions = 11, .speeds = 11, .actuators = 1},
                                          .camera_distance = 4};
  struct Options : MujocoOptions {
    Options() { frame_skip = kDefaults.frame_skip; }
    double reward_near_weight = 0.5, reward_dist_weight = 1, reward_control_weight = 0.1;
  };
  static OptionsOf<Options> options() {
    return mujoco_options<Options>(kDefaults.model)
        .with({{"reward_near_weight", &Options::reward_near_weight, "Cost of a metre between tip and object."},
               {"reward_dist_weight", &Options::reward_dist_weight, "Cost of a metre between object and goal."},
               {"reward_control_weight", &Options::reward_control_weight, "Cost of the squared action."}});
  }
  static MetricsOf<Pusher> metrics() {
    return {{"distance", &Pusher::goal_distance, "From the object to the goal at the end, m."},
            {"reward_dist", &Pusher::reward_dist, "Reward of a step for the object's distance.", Over::kSteps},
            {"reward_near", &Pusher::reward_near, "Reward of a step for the tip's distance.", Over::kSteps},
            {"reward_ctrl", &Pusher::reward_ctrl, "Reward of a step for its action.", Over::kSteps}};
  }

  Pusher() : ArmTask(facts_of(kDefaults)) {}
  void configure(const Options& options) {
    options_ = options;
    if (!use_model(options, kDefaults.model, kDefaults.needs)) return;
    tip_ = body_of(model(), "tips_arm");
    object_ = body_of(model(), "object");
    goal_ = body_of(model(), "goal");
  }
  [[nodiscard]] double goal_distance() const { return distance(object_, goal_); }
  [[nodiscard]] double reward_dist() const { return -goal_distance() * options_.reward_dist_weight; }
  [[nodiscard]] double reward_near() const { return -distance(object_, tip_) * options_.reward_near_weight; }
  [[nodiscard]] double reward_ctrl() const { return -control_cost_; }

 private:
  // The goal is at the origin, and the object not near it.
  void start(NumpyGenerator& random, std::span<double> positions, std::span<double> speeds) override {
    double x = 0, y = 0;
    do {
      x = random.uniform(-0.3, 0);
      y = random.uniform(-0.2, 0.2);
    } while (!(std::sqrt(x * x + y * y) > 0.17));
    const std::array<double, 4> last{x, y, 0, 0};
    std::ranges::copy(last, positions.last(4).begin());
    add_uniform(random, 0.005, speeds);
    std::ranges::fill(speeds.last(4), 0.0);
  }
  void observe(std::vector<double>& shown) const override {
    append(shown, qpos().first(7));
    append(shown, qvel().first(7));
    for (const int body : {tip_, object_, goal_}) append(shown, position_of(body));
  }
  [[nodiscard]] Outcome judge(const Passage& /*passed*/, std::span<const float> action) override {
    control_cost_ = control_cost(options_.reward_control_weight, action);
    return {.reward = reward_dist() + reward_ctrl() + reward_near()};
  }

  Options options_;
  int tip_ = 0, object_ = 0, goal_ = 0;
  double control_cost_ = 0;
};

}  // namespace

GymnasiumTask reacher() { return gymnasium_task<Reacher>(); }
GymnasiumTask pusher() { return gymnasium_task<Pusher>(); }

}  // namespace tandem::rl
