#include "tandem/rl/env/mujoco/tasks/gymnasium_task.h"

namespace tandem::rl {

MujocoTaskFacts facts_of(const TaskDefaults& defaults) {
  return {.id = defaults.id,
          .max_episode_steps = defaults.max_episode_steps,
          .reward_threshold = defaults.reward_threshold,
          .contact_forces = defaults.contact_forces,
          .camera_distance = defaults.camera_distance};
}

Spec spec_of(const TaskDefaults& defaults) {
  const auto actions = static_cast<std::size_t>(defaults.actions);
  const double reach = static_cast<float>(defaults.reach);  // gymnasium's Box has float32 bounds
  return {.id = defaults.id,
          .observation = {{.type = ElementType::kFloat64, .shape = {defaults.shown}}},
          .action = Box{std::vector<double>(actions, -reach), std::vector<double>(actions, reach)},
          .max_episode_steps = defaults.max_episode_steps,
          .reward_threshold = defaults.reward_threshold,
          .render_fps = defaults.render_fps};
}

void require_as_listed(const Spec& made, const TaskDefaults& defaults) {
  const Spec listed = spec_of(defaults);
  if (made.observation == listed.observation && made.action == listed.action) return;
  throw ConfigError(concat(listed.id, ": its model ", defaults.model, " shows ", describe(made.observation.front()),
                           " and takes ", describe(made.action), "; that of gymnasium 1.4 shows ",
                           describe(listed.observation.front()), " and takes ", describe(listed.action),
                           "; a model of yours is named by --env-option xml_file=PATH"));
}

std::vector<GymnasiumTask> gymnasium_tasks() {
  std::vector<GymnasiumTask> tasks;
  for (const auto& task : {ant, half_cheetah, hopper, humanoid, humanoid_standup, inverted_double_pendulum,
                           inverted_pendulum, pusher, reacher, swimmer, walker2d})
    tasks.push_back(task());
  return tasks;
}

}  // namespace tandem::rl
