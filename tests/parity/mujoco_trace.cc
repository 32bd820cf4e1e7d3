// Lets a script drive one of Tandem's MuJoCo tasks and see what it shows in float64, for comparison with gymnasium.
//
//   mujoco_trace ENV [OPTION=VALUE...]     reads one command a line:
//
// "spec" is answered with a line of text: ELEMENTS ACTIONS LIMIT THRESHOLD|none FPS LOW... HIGH..., then the names of
// metrics. "reset SEED" starts an episode from a new generator, "again" the next one of the same generator; both are
// answered with the observation. "play STEPS" is followed by the actions of so many steps, as float32, and takes them
// up to the first one that ends the episode; it is answered with the number of steps, and of each with the observation,
// reward, end and metrics. "picture" is answered with height and width, and then with the bytes of red, green and blue,
// the upper row first.
//
// Numbers of answers are float64 as they lie in memory.
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

void play(const GymnasiumTask& kind, MujocoTask& task, std::size_t steps, std::istream& in) {
  const std::size_t width = std::get<Box>(task.spec().action).low.size();
  std::vector<float> actions(steps * width);
  in.read(reinterpret_cast<char*>(actions.data()), static_cast<std::streamsize>(actions.size() * sizeof(float)));
  std::vector<double> answer(1);
  for (std::size_t step = 0; step < steps; ++step) {
    const auto result = task.step(std::span(actions).subspan(step * width, width));
    answer.insert(answer.end(), result.observation.begin(), result.observation.end());
    answer.insert(answer.end(), {result.reward, result.terminated ? 1.0 : 0.0});
    const std::vector<double> metrics = kind.metrics(task);
    answer.insert(answer.end(), metrics.begin(), metrics.end());
    ++answer.front();
    if (result.terminated) break;
  }
  write(answer);
}

void show_picture(const MujocoTask& task) {
  Canvas canvas;
  task.render(canvas);
  const auto& image = std::get<drawing::Image>(canvas.shapes().front());
  write(std::vector<double>{static_cast<double>(image.height), static_cast<double>(image.width)});
  std::fwrite(image.rgb.data(), 1, image.rgb.size(), stdout);
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
    } else if (command == "play") {
      std::size_t steps = 0;
      words >> steps;
      play(kind, *task, steps, in);
    } else if (command == "picture") {
      show_picture(*task);
    } else {
      throw ConfigError("unknown command: " + line);
    }
  }
}

int trace(int argc, char** argv) {
  const char* library = std::getenv("TANDEM_MUJOCO");  // NOLINT(concurrency-mt-unsafe): there is one thread
  const char* opengl = std::getenv("MUJOCO_GL");       // NOLINT(concurrency-mt-unsafe)
  set_mujoco_places({.library = library == nullptr ? "" : library, .opengl = opengl == nullptr ? "" : opengl});
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
