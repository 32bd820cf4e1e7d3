// Question: how many steps per second does one thread make with MuJoCo's tasks, against a bare loop of mj_step() with
// the same number of frames a step, from the same states with the same actions? What the group adds is observations,
// rewards, ends, forces of contacts where they are shown, metrics, checks and new episodes.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <vector>

#include "bench/timing.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/mujoco/tasks/gymnasium_task.h"

namespace tandem::bench {
namespace {

constexpr std::size_t kEnvs = 8;
constexpr std::uint64_t kSeed = 7;

// What both contenders do: actions, and the state that each new episode begins with.
struct Script {
  struct Start {
    std::size_t step, env;
    std::vector<double> qpos, qvel;
  };
  const rl::GymnasiumTask& kind;
  std::vector<std::vector<float>> actions;  // by step, of all environments
  std::vector<Start> starts;                // in the order in which they happen; before step `step`
  std::vector<double> last;                 // qpos of all environments behind the last step
};

std::vector<double> copied(const mjtNum* first, mjtSize count) { return {first, first + count}; }

Script script_of(const rl::GymnasiumTask& kind, std::size_t steps) {
  Script script{.kind = kind, .actions = {}, .starts = {}, .last = {}};
  const auto& box = std::get<rl::Box>(kind.entry.spec.action);
  Philox random(kSeed, 0);
  std::vector<std::unique_ptr<rl::MujocoTask>> tasks;
  std::vector<rl::NumpyGenerator> generators;
  std::vector<int> elapsed(kEnvs);
  const auto begin = [&](std::size_t step, std::size_t env) {
    (void)tasks[env]->reset(generators[env]);
    const rl::MujocoTask& its = *tasks[env];
    script.starts.push_back(
        {step, env, copied(its.data().qpos, its.model().nq), copied(its.data().qvel, its.model().nv)});
    elapsed[env] = 0;
  };
  for (std::size_t env = 0; env < kEnvs; ++env) {
    tasks.push_back(kind.make({}));
    generators.emplace_back(kSeed + env);
  }
  for (std::size_t env = 0; env < kEnvs; ++env) begin(0, env);
  for (std::size_t step = 0; step < steps; ++step) {
    std::vector<float>& row = script.actions.emplace_back();
    for (std::size_t env = 0; env < kEnvs; ++env) {
      for (std::size_t i = 0; i < box.low.size(); ++i)
        row.push_back(static_cast<float>(box.low[i] + (box.high[i] - box.low[i]) * random.uniform_double()));
      const std::span<const float> action(row.data() + env * box.low.size(), box.low.size());
      const bool ended = tasks[env]->step(action).terminated || ++elapsed[env] == kind.entry.spec.max_episode_steps;
      if (ended) begin(step + 1, env);
    }
  }
  for (const auto& task : tasks) {
    const std::vector<double> qpos = copied(task->data().qpos, task->model().nq);
    script.last.insert(script.last.end(), qpos.begin(), qpos.end());
  }
  return script;
}

// Times blocks of steps, so that the clock costs nothing.
template <typename Step>
std::vector<double> time_blocks(std::size_t steps, const Step& step) {
  constexpr std::size_t kBlock = 20;
  std::vector<double> seconds;
  for (std::size_t first = 0; first < steps; first += kBlock) {
    const Clock::time_point start = Clock::now();
    for (std::size_t i = first; i < std::min(first + kBlock, steps); ++i) step(i);
    seconds.push_back(seconds_since(start) / static_cast<double>(std::min(first + kBlock, steps) - first));
  }
  return seconds;
}

std::vector<double> time_bare(const Script& script, std::vector<double>& last) {
  const rl::MujocoLibrary& mujoco = rl::mujoco_library();
  const std::unique_ptr<rl::MujocoTask> one = script.kind.make({});
  const mjModel& model = one->model();
  const int frames = static_cast<int>(std::lround(1 / (one->spec().render_fps * model.opt.timestep)));
  std::vector<rl::MujocoData> data;
  for (std::size_t env = 0; env < kEnvs; ++env) data.push_back(rl::new_data(model));
  const auto actions = static_cast<std::size_t>(model.nu);
  auto start = script.starts.begin();
  std::vector<double> seconds = time_blocks(script.actions.size(), [&](std::size_t step) {
    for (; start != script.starts.end() && start->step == step; ++start) {
      mjData& its = *data[start->env];
      mujoco.reset_data(&model, &its);
      std::ranges::copy(start->qpos, its.qpos);
      std::ranges::copy(start->qvel, its.qvel);
      mujoco.forward(&model, &its);
    }
    for (std::size_t env = 0; env < kEnvs; ++env) {
      std::copy_n(script.actions[step].begin() + static_cast<std::ptrdiff_t>(env * actions), actions, data[env]->ctrl);
      for (int frame = 0; frame < frames; ++frame) mujoco.step(&model, data[env].get());
    }
  });
  for (; start != script.starts.end(); ++start) std::ranges::copy(start->qpos, data[start->env]->qpos);
  for (const rl::MujocoData& its : data) last.insert(last.end(), its->qpos, its->qpos + model.nq);
  return seconds;
}

std::vector<double> time_group(const Script& script, std::size_t& ends) {
  const std::unique_ptr<rl::EnvGroup> group = script.kind.entry.make(static_cast<int>(kEnvs));
  rl::EnvBuffers buffers(*group);
  std::vector<std::uint64_t> seeds(kEnvs);
  for (std::size_t env = 0; env < kEnvs; ++env) seeds[env] = kSeed + env;
  group->reset(seeds, buffers.arrays());
  return time_blocks(script.actions.size(), [&](std::size_t step) {
    group->step({.box = script.actions[step].data()}, buffers.arrays());
    for (std::size_t env = 0; env < kEnvs; ++env) ends += (buffers.terminated()[env] | buffers.truncated()[env]) != 0;
  });
}

void tell(const std::string& id, const char* contender, const Samples& samples) {
  print({.case_name = id,
         .contender = contender,
         .unit = "1/s",
         .value = kEnvs / samples.mean(),
         .p99 = kEnvs / samples.quantile(0.99),
         .samples = samples.size()});
}

// The answer: the bare loop ends where the tasks do, and the group has as many episodes.
bool measure(const rl::GymnasiumTask& kind, Size size) {
  const std::size_t steps = size == Size::kSmoke ? 60 : 1500;
  const Script script = script_of(kind, steps);
  std::vector<double> bare_last;
  std::size_t ends = 0;
  const Samples bare(time_bare(script, bare_last)), group(time_group(script, ends));
  tell(kind.entry.spec.id, "mj_step", bare);
  tell(kind.entry.spec.id, "tandem", group);
  if (bare_last == script.last && ends + kEnvs == script.starts.size()) return true;
  std::cerr << kind.entry.spec.id << ": the bare loop and the group did not simulate the same\n";
  return false;
}

int run(Size size) {
  for (const rl::GymnasiumTask& kind : rl::gymnasium_tasks()) {
    if (!measure(kind, size)) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::bench_main(argc, argv, tandem::bench::run); }
