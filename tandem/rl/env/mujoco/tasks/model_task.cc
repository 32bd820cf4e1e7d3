#include "tandem/rl/env/mujoco/tasks/model_task.h"

#include <string>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/mujoco/tasks/mujoco_task.h"
#include "tandem/rl/env/mujoco/tasks/start_noise.h"

namespace tandem::rl {
namespace {

constexpr const char* kName = "mujoco";

// The place in mjData::sensordata of the first number of the sensor that is called so.
int sensor_of(const mjModel& model, const std::string& name) {
  const int sensor = mujoco_library().name_to_id(&model, mjOBJ_SENSOR, name.c_str());
  if (sensor >= 0) return model.sensor_adr[sensor];
  std::vector<std::string> names;
  for (int i = 0; i < static_cast<int>(model.nsensor); ++i) names.emplace_back(model.names + model.name_sensoradr[i]);
  throw ConfigError(concat("the model has no sensor '", name, "'; it has ",
                           names.empty() ? "none: add some to its <sensor>" : joined(names)));
}

class ModelTask final : public MujocoTask {
 public:
  struct Options {
    std::string model = {}, reward = {}, until = {};
    std::string shows = "state";
    std::int64_t frame_skip = 1, max_episode_steps = 1000, width = 480, height = 480;
    double reset_noise_scale = 0.01;
  };
  static OptionsOf<Options> options() {
    return {{"model", &Options::model, "The model: a path (./mine.xml, /models/mine.xml), or a file of gymnasium's."},
            {"reward", &Options::reward, "The sensor whose first number is the reward of a step."},
            {"until", &Options::until, "The sensor that ends an episode when its first number is above 0."},
            {"shows", &Options::shows, "What is shown.", {.words = {"state", "sensors", "both"}}},
            {"frame_skip", &Options::frame_skip, "Steps of MuJoCo in a step.", {.least = 1, .most = 10'000}},
            {"max_episode_steps", &Options::max_episode_steps, "The time limit; 0: none.", {.least = 0, .most = 1e9}},
            {"reset_noise_scale", &Options::reset_noise_scale, "How far first states differ.", {.least = 0}},
            {"width", &Options::width, "Of a video's pictures, pixels.", picture_sides()},
            {"height", &Options::height, "Of a video's pictures, pixels.", picture_sides()}};
  }

  ModelTask() : MujocoTask({.id = kName}) {}
  void configure(const Options& options) {
    if (options.model.empty() || options.reward.empty())
      throw ConfigError(concat("'", kName,
                               "' needs a model and its reward: --env-option model=./mine.xml --env-option ",
                               "reward=SENSOR, a sensor of the model; other rewards are a class on MujocoTask"));
    options_ = options;
    use_model(options.model, options.frame_skip);
    limit_episodes(static_cast<int>(options.max_episode_steps));
    size_pictures(options.width, options.height);
    reward_ = sensor_of(model(), options.reward);
    until_ = options.until.empty() ? -1 : sensor_of(model(), options.until);
  }

 private:
  void start(NumpyGenerator& random, std::span<double> positions, std::span<double> speeds) override {
    add_uniform(random, options_.reset_noise_scale, positions);
    add_uniform(random, options_.reset_noise_scale, speeds);
  }
  void observe(std::vector<double>& shown) const override {
    if (options_.shows != "sensors") {
      append(shown, qpos());
      append(shown, qvel());
    }
    if (options_.shows != "state") append(shown, part(data().sensordata, model().nsensordata));
  }
  [[nodiscard]] Outcome judge(const Passage& /*passed*/, std::span<const float> /*action*/) override {
    return {.reward = data().sensordata[reward_], .terminated = until_ >= 0 && data().sensordata[until_] > 0};
  }

  Options options_;
  int reward_ = 0, until_ = -1;
};

}  // namespace

EnvEntry model_entry() {
  const auto spec_with = [](const EnvOptionTexts& options) -> Spec {
    ModelTask task;
    OptionGiver<ModelTask>(options).begin(task);
    return task.spec();
  };
  return {.spec = {.id = kName,
                   .observation = {{.name = "of_the_model", .shape = {1}}},
                   .action = Box{{-1}, {1}},
                   .max_episode_steps = 1000},
          .make = [spec_with](int /*count*/) -> std::unique_ptr<EnvGroup> {
            (void)spec_with({});  // throws
            return nullptr;
          },
          .origin = "tandem, MuJoCo",
          .options = ModelTask::options().list(),
          .spec_with = spec_with,
          .make_with = [](int count, const EnvOptionTexts& options) -> std::unique_ptr<EnvGroup> {
            return std::make_unique<EnvGroupOf<ModelTask>>(
                count, [] { return std::make_unique<ModelTask>(); }, options);
          }};
}

}  // namespace tandem::rl
