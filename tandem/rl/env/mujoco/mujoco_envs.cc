#include "tandem/rl/env/mujoco/mujoco_envs.h"

#include <algorithm>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#ifdef TANDEM_HAS_MUJOCO
#include "tandem/rl/env/mujoco/tasks/gymnasium_task.h"
#include "tandem/rl/env/mujoco/tasks/model_task.h"
#include "tandem/rl/env/mujoco/tasks/mujoco_library.h"
#endif

namespace tandem::rl {

const std::vector<std::string>& mujoco_names() {
  static const std::vector<std::string> names{"Ant-v5",
                                              "HalfCheetah-v5",
                                              "Hopper-v5",
                                              "Humanoid-v5",
                                              "HumanoidStandup-v5",
                                              "InvertedDoublePendulum-v5",
                                              "InvertedPendulum-v5",
                                              "Pusher-v5",
                                              "Reacher-v5",
                                              "Swimmer-v5",
                                              "Walker2d-v5",
                                              "mujoco"};
  return names;
}

#ifdef TANDEM_HAS_MUJOCO

std::vector<EnvEntry> mujoco_entries() {
  std::vector<EnvEntry> entries;
  for (GymnasiumTask& task : gymnasium_tasks()) entries.push_back(std::move(task.entry));
  entries.push_back(model_entry());
  return entries;
}

std::string why_no_mujoco() {
  try {
    (void)mujoco_library();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::string mujoco_there_is() {
  return why_no_mujoco().empty() ? concat("MuJoCo ", mujoco_version(), " (", mujoco_library().file, ")") : "";
}

std::string why_unknown(std::string_view /*id*/) { return ""; }

#else

std::vector<EnvEntry> mujoco_entries() { return {}; }

std::string why_no_mujoco() {
  return concat("MuJoCo's tasks (", joined(mujoco_names()),
                ") are not in this tandem, which was built without MuJoCo's ",
                "headers: run `tools/bootstrap --mujoco` and build it again, or build it with -DTANDEM_MUJOCO=DIR");
}

std::string mujoco_there_is() { return ""; }

std::string why_unknown(std::string_view id) {
  return std::ranges::find(mujoco_names(), id) == mujoco_names().end()
             ? ""
             : concat("there is no environment '", id, "'. ", why_no_mujoco());
}

#endif

}  // namespace tandem::rl
