#include "tandem/rl/env/mujoco/tasks/gymnasium_tasks.h"

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/mujoco/tasks/ant.h"
#include "tandem/rl/env/mujoco/tasks/arms.h"
#include "tandem/rl/env/mujoco/tasks/half_cheetah.h"
#include "tandem/rl/env/mujoco/tasks/pendulums.h"
#include "tandem/rl/env/mujoco/tasks/planar_walkers.h"
#include "tandem/rl/env/mujoco/tasks/swimmer.h"
#include "tandem/rl/env/mujoco/tasks/whole_body.h"

namespace tandem::rl {
namespace {

// A folder of models may hold another version of a task's model; the registry promises what the task's own shows.
template <typename Task>
std::unique_ptr<EnvGroup> group_as_listed(int count) {
  auto group = std::make_unique<EnvGroupOf<Task>>(count);
  const Spec& made = group->spec();
  const Spec listed = spec_of(Task::kDefaults);
  if (made.observation != listed.observation || made.action != listed.action)
    throw ConfigError(concat(listed.id, ": its model ", Task::kDefaults.model, " shows ",
                             describe(made.observation.front()), " and takes ", describe(made.action),
                             ", which is not that of gymnasium 1.4; name one of your own with --env-option xml_file="));
  return group;
}

template <typename Task>
EnvEntry entry_of_task() {
  return {.spec = with_metrics<Task>(spec_of(Task::kDefaults)),
          .make = group_as_listed<Task>,
          .origin = "tandem, MuJoCo",
          .options = Task::options().list(),
          .spec_with = [](const EnvOptionTexts& options) -> Spec {
            Task task;
            OptionGiver<Task>(options).begin(task);
            return with_metrics<Task>(task.spec());
          },
          .make_with = [](int count, const EnvOptionTexts& options) -> std::unique_ptr<EnvGroup> {
            return std::make_unique<EnvGroupOf<Task>>(
                count, [] { return std::make_unique<Task>(); }, options);
          }};
}

template <typename... Tasks>
std::vector<EnvEntry> entries_of() {
  std::vector<EnvEntry> entries;
  (entries.push_back(entry_of_task<Tasks>()), ...);
  return entries;
}

}  // namespace

std::vector<EnvEntry> gymnasium_tasks() {
  return entries_of<Ant, HalfCheetah, Hopper, Humanoid, HumanoidStandup, InvertedDoublePendulum, InvertedPendulum,
                    Pusher, Reacher, Swimmer, Walker2d>();
}

}  // namespace tandem::rl
