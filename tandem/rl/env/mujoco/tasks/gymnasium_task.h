// rl/env/mujoco/tasks/gymnasium_task.h: what makes an entry of the registry of one of Gymnasium's tasks.
//
// A task is a class in a file of its own, which nobody sees but this template: it derives from MujocoTask, has Options,
// options() and configure() (env_options.h), perhaps metrics() (env_metrics.h), and a constant kDefaults.
//
// Threads: making a GymnasiumTask reads no model and loads no library, so listings and checks of a configuration need
// no MuJoCo. Its functions do both, and may be called from any thread.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/mujoco/tasks/mujoco_task.h"

namespace tandem::rl {

/// A task as it is with its default options; what MujocoTask::spec() says of its own model.
struct TaskDefaults {
  const char* id;
  const char* model;
  int frame_skip;
  int max_episode_steps;
  std::optional<double> reward_threshold;
  /// Elements of an observation and of an action, and how far an action reaches: -reach .. reach.
  int shown, actions;
  double reach;
  double render_fps;
  /// Of any model that the task is given.
  ModelNeeds needs;
  /// As of MujocoTaskFacts.
  bool contact_forces = false;
  /// Of models without a camera that goes with the body; 0: as far as the model extends.
  double camera_distance = 0;
};
[[nodiscard]] MujocoTaskFacts facts_of(const TaskDefaults& defaults);
[[nodiscard]] Spec spec_of(const TaskDefaults& defaults);
/// A folder of models may hold another version of a task's model, and the registry promises what the task's own shows.
/// Throws ConfigError where `made` shows or takes something else.
void require_as_listed(const Spec& made, const TaskDefaults& defaults);

/// A task for the registry, and one by one for comparisons.
struct GymnasiumTask {
  EnvEntry entry;
  /// One environment with its options, whose observations are in float64.
  std::function<std::unique_ptr<MujocoTask>(const EnvOptionTexts& options)> make;
  /// The metrics of such a one, in the order of the spec's.
  std::function<std::vector<double>(const MujocoTask& task)> metrics;
};

// Each in a file of its own, or of its family.
[[nodiscard]] GymnasiumTask ant();
[[nodiscard]] GymnasiumTask half_cheetah();
[[nodiscard]] GymnasiumTask hopper();
[[nodiscard]] GymnasiumTask humanoid();
[[nodiscard]] GymnasiumTask humanoid_standup();
[[nodiscard]] GymnasiumTask inverted_double_pendulum();
[[nodiscard]] GymnasiumTask inverted_pendulum();
[[nodiscard]] GymnasiumTask pusher();
[[nodiscard]] GymnasiumTask reacher();
[[nodiscard]] GymnasiumTask swimmer();
[[nodiscard]] GymnasiumTask walker2d();
/// All of them, in the order of their names.
[[nodiscard]] std::vector<GymnasiumTask> gymnasium_tasks();

/// The functions of a class.
template <typename Task>
[[nodiscard]] GymnasiumTask gymnasium_task() {
  const auto make = [](const EnvOptionTexts& options) {
    auto task = std::make_unique<Task>();
    OptionGiver<Task>(options).begin(*task);
    return task;
  };
  EnvEntry entry{
      .spec = with_metrics<Task>(spec_of(Task::kDefaults)),
      .make = [](int count) -> std::unique_ptr<EnvGroup> {
        // What is missing is the user's to mend (ConfigError), and not a failure of an environment.
        const SharedModel own = shared_model(Task::kDefaults.model);
        require_parts(*own.model, Task::kDefaults.needs, Task::kDefaults.id, Task::kDefaults.model);
        auto group = std::make_unique<EnvGroupOf<Task>>(count);
        require_as_listed(group->spec(), Task::kDefaults);
        return group;
      },
      .origin = "tandem, MuJoCo",
      .options = Task::options().list(),
      .spec_with = [make](const EnvOptionTexts& options) -> Spec { return with_metrics<Task>(make(options)->spec()); },
      .make_with = [](int count, const EnvOptionTexts& options) -> std::unique_ptr<EnvGroup> {
        return std::make_unique<EnvGroupOf<Task>>(
            count, [] { return std::make_unique<Task>(); }, options);
      }};
  const auto values_of = [](const MujocoTask& task) {
    std::vector<double> values;
    if constexpr (HasMetrics<Task>) {
      const MetricsOf<Task> metrics = Task::metrics();
      for (const auto& field : metrics.fields()) values.push_back(field.value(static_cast<const Task&>(task)));
    }
    return values;
  };
  return {.entry = std::move(entry), .make = make, .metrics = values_of};
}

}  // namespace tandem::rl
