// Lets a script drive one of Tandem's MuJoCo tasks and see what it shows in float64, for comparison with gymnasium.
//
//   mujoco_trace ENV [OPTION=VALUE...]     reads one command a line:
//
// "spec" is answered with a line of text: ELEMENTS ACTIONS LIMIT THRESHOLD|none FPS LOW... HIGH..., then the names of
// metrics. "reset SEED" starts an episode from a new generator, "again" the next one of the same generator, and
// "step NUMBER..." takes an action.
//
// Each of the last three is answered with float64 as they lie in memory: the observation; a step also with reward, end,
// and metrics.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/mujoco/mujoco_places.h"
#include "tandem/rl/env/mujoco/tasks/gymnasium_task.h"

namespace tandem::rl {
namespace {

void write(std::span<const double> values) { std::fwrite(values.data(), sizeof(double), values.size(), stdout); }

void write_spec(const GymnasiumTask& kind, const MujocoTask& task) {
  const Spec spec = task.spec();
  const auto& box = std::get<Box>(spec.action);
  const std::string threshold = spec.reward_threshold ? concat(*spec.reward_threshold) : "none";
  const std::string text =
      concat(spec.observation.front().count(), " ", box.low.size(), " ", spec.max_episode_steps, " ", threshold, " ",
             spec.render_fps, " ", joined(box.low, {}, " "), " ", joined(box.high, {}, " "), " ",
             joined(
                 kind.entry.spec.metrics, [](const Metric& metric) { return metric.name; }, " "));
  std::printf("%s\n", text.c_str());
}

void run(const GymnasiumTask& kind, const EnvOptionTexts& options, std::istream& in) {
  const std::unique_ptr<MujocoTask> task = kind.make(options);
  NumpyGenerator random;
  for (std::string line; std::getline(in, line); std::fflush(stdout)) {
    std::istringstream words = reader_of(line);
    std::string command;
    words >> command;
    if (command == "spec") {
      write_spec(kind, *task);
    } else if (command == "reset") {
      std::uint64_t seed = 0;
      words >> seed;
      random = NumpyGenerator(seed);
      write(task->reset(random));
    } else if (command == "again") {
      write(task->reset(random));
    } else if (command == "step") {
      std::vector<float> action;
      for (float number = 0; words >> number;) action.push_back(number);
      const auto result = task->step(action);
      write(result.observation);
      write(std::vector<double>{result.reward, result.terminated ? 1.0 : 0.0});
      write(kind.metrics(*task));
    } else {
      throw ConfigError("unknown command: " + line);
    }
  }
}

int trace(int argc, char** argv) {
  const char* library = std::getenv("TANDEM_MUJOCO");  // NOLINT(concurrency-mt-unsafe): there is one thread
  if (library != nullptr) set_mujoco_places({.library = library});
  EnvOptionTexts options;
  for (int i = 2; i < argc; ++i) {
    const std::string text = argv[i];
    const std::size_t sign = text.find('=');
    options.emplace_back(text.substr(0, sign), text.substr(sign + 1));
  }
  for (const GymnasiumTask& kind : gymnasium_tasks()) {
    if (argc >= 2 && kind.entry.spec.id == argv[1]) return run(kind, options, std::cin), 0;
  }
  std::cerr << "usage: mujoco_trace ENV [OPTION=VALUE...]\n";
  return 2;
}

}  // namespace
}  // namespace tandem::rl

int main(int argc, char** argv) {
  try {
    return tandem::rl::trace(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "mujoco_trace: " << error.what() << "\n";
    return 3;
  }
}
