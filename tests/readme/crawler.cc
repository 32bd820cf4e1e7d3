#include <tandem/rl/env/mujoco/tasks/mujoco_task.h>
#include <tandem/rl/env/plugin.h>

#include <cmath>

using namespace tandem::rl;

// It pulls itself forward by one arm of two joints.
class Crawler : public MujocoTask {
 public:
  Crawler() : MujocoTask({.id = "Crawler-v0", .max_episode_steps = 200}) { use_model("./crawler.xml", 5); }

 private:
  // The positions are those of the model: x, z and pitch of the trunk, shoulder, elbow.
  void start(NumpyGenerator& random, std::span<double> qpos, std::span<double> /*qvel*/) override {
    for (double& q : qpos.last(2)) q += random.uniform(-0.1, 0.1);
  }
  void observe(std::vector<double>& shown) const override {
    append(shown, qpos().subspan(1));
    append(shown, qvel());
  }
  Mark mark() const override { return {qpos()[0]}; }
  Outcome judge(const Passage& passed, std::span<const float> action) override {
    const double effort = action[0] * action[0] + action[1] * action[1];
    return {.reward = passed.velocity(0) - 0.01 * effort, .terminated = std::abs(qpos()[2]) > 1.5};  // on its back
  }
};

TANDEM_ENV_PLUGIN(Crawler);
