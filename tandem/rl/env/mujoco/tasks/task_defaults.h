// rl/env/mujoco/tasks/task_defaults.h: what is known of one of Gymnasium's tasks before its model is read: so listings
// and checks of a configuration need no MuJoCo.
//
// Threads: plain values.
#pragma once
#include <optional>
#include <vector>

#include "tandem/rl/env/mujoco/tasks/mujoco_task.h"

namespace tandem::rl {

/// A task as it is with its default options.
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
  bool contact_forces = false;
};

[[nodiscard]] inline MujocoTaskFacts facts_of(const TaskDefaults& defaults) {
  return {.id = defaults.id,
          .max_episode_steps = defaults.max_episode_steps,
          .reward_threshold = defaults.reward_threshold,
          .contact_forces = defaults.contact_forces};
}

/// What MujocoTask::spec() says of the task's own model.
[[nodiscard]] inline Spec spec_of(const TaskDefaults& defaults) {
  const auto actions = static_cast<std::size_t>(defaults.actions);
  const double reach = static_cast<float>(defaults.reach);
  return {.id = defaults.id,
          .observation = {{.shape = {defaults.shown}}},
          .action = Box{std::vector<double>(actions, -reach), std::vector<double>(actions, reach)},
          .max_episode_steps = defaults.max_episode_steps,
          .reward_threshold = defaults.reward_threshold,
          .render_fps = defaults.render_fps};
}

}  // namespace tandem::rl
