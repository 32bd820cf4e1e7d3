// rl/env/mujoco/tasks/mujoco_task.h: the base of environments that MuJoCo simulates: everything but what is drawn at
// the start, what is shown, and what is earned.
//
//   class Crawler : public tandem::rl::MujocoTask {
//    public:
//     Crawler() : MujocoTask({.id = "Crawler-v0", .max_episode_steps = 1000}) { use_model("./crawler.xml", 5); }
//
//    private:
//     void start(NumpyGenerator& random, std::span<double> qpos, std::span<double> qvel) override {
//       for (double& q : qpos) q += random.uniform(-0.1, 0.1);       // qpos and qvel are those of the model
//     }
//     void observe(std::vector<double>& shown) const override { append(shown, qpos()); append(shown, qvel()); }
//     Mark mark() const override { return {qpos()[0]}; }
//     Outcome judge(const Passage& passed, std::span<const float> action) override {
//       return {.reward = passed.velocity(0)};
//     }
//   };
//
// Such a class is a struct of one environment as env_concepts.h says, and may have Options, whose configure() calls
// use_model(), and metrics(). Gymnasium's tasks are examples: half_cheetah.h, hopper.h and the others of this folder.
//
// A step is `frame_skip` steps of MuJoCo's. Saved states are exact: mjSTATE_INTEGRATION, and what was shown and marked.
// Threads: single-thread, as every environment; environments share their model, which does not change.
// Errors: ConfigError for a missing library and for models; EnvError where MuJoCo fails. A simulation that becomes
// unstable is put back to its model's state by MuJoCo, as in Gymnasium; the episode goes on.
// No call of step() takes memory once it has been called.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tandem/rl/env/env_concepts.h"
#include "tandem/rl/env/env_options.h"
#include "tandem/rl/env/mujoco/tasks/mujoco_model.h"
#include "tandem/rl/env/mujoco/tasks/mujoco_painter.h"

namespace tandem::rl {

/// What a task is whatever its model.
struct MujocoTaskFacts {
  std::string id;
  /// In steps of the environment; 0: none.
  int max_episode_steps = 0;
  std::optional<double> reward_threshold = {};
  /// Whether forces of contacts are computed after each step (cfrc_ext, cfrc_int, cacc), which MuJoCo leaves out.
  bool contact_forces = false;
  /// As of MujocoLook.
  std::optional<double> camera_distance = {};
};

/// The options that all tasks have; each sets frame_skip to its own default.
struct MujocoOptions {
  std::string xml_file = {};  // empty: the task's own model
  std::int64_t frame_skip = 1;
  std::int64_t width = 480, height = 480;
};
[[nodiscard]] inline EnvOptionLimits picture_sides() { return {.least = 16, .most = Canvas::kMostPixels}; }
/// Their entries in a task's options(); `model` is the task's own.
template <typename Options>
[[nodiscard]] OptionsOf<Options> mujoco_options(const std::string& model) {
  return {
      {"xml_file", &Options::xml_file, "Model: a path (./mine.xml), or a file of gymnasium's. Not set: " + model + "."},
      {"frame_skip", &Options::frame_skip, "Steps of MuJoCo in a step.", {.least = 1, .most = 10'000}},
      {"width", &Options::width, "Of a video's pictures, pixels.", picture_sides()},
      {"height", &Options::height, "Of a video's pictures, pixels.", picture_sides()}};
}

class MujocoTask {
 public:
  using Observation = std::span<const double>;

  explicit MujocoTask(MujocoTaskFacts facts)
      : facts_(std::move(facts)), look_{.camera_distance = facts_.camera_distance} {}
  virtual ~MujocoTask() = default;
  MujocoTask(const MujocoTask&) = delete;
  MujocoTask& operator=(const MujocoTask&) = delete;

  /// One leaf of float64, of as many elements as observe() shows; a Box of the actuators' ranges. This and all below
  /// need a model.
  [[nodiscard]] Spec spec() const;
  /// The spans of observations are valid until the next call.
  [[nodiscard]] Observation reset(NumpyGenerator& random);
  [[nodiscard]] StepResult<Observation> step(std::span<const float> action);
  [[nodiscard]] std::vector<std::byte> save() const;
  /// Throws CheckpointError for the state of another model, also where only a number of it is another.
  [[nodiscard]] Observation load(std::span<const std::byte> state);

  /// Draws the simulation by OpenGL (mujoco_painter.h).
  void render(Canvas& canvas) const;

  [[nodiscard]] const mjModel& model() const { return *model_; }
  [[nodiscard]] const mjData& data() const { return *data_; }

 protected:
  /// One or two numbers whose change over a step is measured: most often where the body is.
  using Mark = std::array<double, 2>;
  /// A step as it is judged: marks before and after it, and its duration in seconds.
  struct Passage {
    Mark from, to;
    double duration;
    [[nodiscard]] double velocity(std::size_t i) const { return (to[i] - from[i]) / duration; }
  };
  struct Outcome {
    double reward = 0;
    bool terminated = false;
  };

  /// Chooses the model and the frames of a step; cheap when both are as before. To be called by the constructor, or by
  /// configure(), before anything else. `needs`: what start(), observe() and the others read without asking. Throws as
  /// shared_model() and require_parts() do; the task then keeps the model that it had.
  void use_model(const std::string& name, std::int64_t frame_skip, const ModelNeeds& needs = {});
  /// The same with the options of a task; true when the model is another one than before.
  bool use_model(const MujocoOptions& options, const char* own_model, const ModelNeeds& needs = {});

  /// Sets MujocoTaskFacts::max_episode_steps, for tasks whose time limit is an option.
  void limit_episodes(int steps) { facts_.max_episode_steps = steps; }
  /// Pictures have 480 x 480 pixels before this is called. Sides are at most Canvas::kMostPixels.
  void size_pictures(std::int64_t width, std::int64_t height) {
    look_.width = static_cast<int>(width);
    look_.height = static_cast<int>(height);
  }

  /// Changes the first state of an episode, which is that of the model.
  virtual void start(NumpyGenerator& random, std::span<double> qpos, std::span<double> qvel) = 0;
  /// Appends what is shown to `shown`, always as many numbers.
  virtual void observe(std::vector<double>& shown) const = 0;
  /// Called at the start of an episode and after each step.
  [[nodiscard]] virtual Mark mark() const { return {}; }
  /// `action` as it was given, before MuJoCo cuts it at the actuators' ranges.
  [[nodiscard]] virtual Outcome judge(const Passage& passed, std::span<const float> action) = 0;

  // Parts of the simulation's state, as MuJoCo names them. Positions of bodies and what else is computed from the state
  // are those of the last of MuJoCo's steps, from before it moved on, as Gymnasium shows them.
  [[nodiscard]] std::span<const double> qpos() const { return part(data_->qpos, model_->nq); }
  [[nodiscard]] std::span<const double> qvel() const { return part(data_->qvel, model_->nv); }
  /// The centre of a body's frame: three numbers.
  [[nodiscard]] std::span<const double> position_of(int body) const {
    return part(data_->xpos + std::ptrdiff_t{3} * body, 3);
  }
  /// Of each body but the world, or of all: 10, 6 or 6 numbers a body.
  [[nodiscard]] std::span<const double> inertias() const { return part(data_->cinert + 10, 10 * (model_->nbody - 1)); }
  [[nodiscard]] std::span<const double> velocities() const { return part(data_->cvel + 6, 6 * (model_->nbody - 1)); }
  [[nodiscard]] std::span<const double> contact_forces() const { return part(data_->cfrc_ext, 6 * model_->nbody); }

  static void append(std::vector<double>& shown, std::span<const double> more) {
    shown.insert(shown.end(), more.begin(), more.end());
  }
  template <typename Size>
  [[nodiscard]] static std::span<const double> part(const mjtNum* first, Size count) {
    return {first, static_cast<std::size_t>(count)};
  }

 private:
  [[nodiscard]] double step_duration() const;
  void show();

  MujocoTaskFacts facts_;
  MujocoLook look_;
  mutable std::shared_ptr<MujocoPainter> painter_;  // of the model, since the first picture
  std::string model_name_;
  std::shared_ptr<const mjModel> model_;
  Sha256::Digest model_digest_{};
  MujocoData data_;
  int frame_skip_ = 1;
  Mark mark_{};
  std::vector<double> shown_;  // the newest observation
};

}  // namespace tandem::rl
