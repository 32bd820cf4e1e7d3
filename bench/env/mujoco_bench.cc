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

// The same in MuJoCo's own functions alone.
class Bare {
 public:
  explicit Bare(const Script& script)
      : script_(script), one_(script.kind.make({})), model_(one_->model()), start_(script.starts.begin()) {
    frames_ = static_cast<int>(std::lround(1 / (one_->spec().render_fps * model_.opt.timestep)));
    for (std::size_t env = 0; env < kEnvs; ++env) data_.push_back(rl::new_data(model_));
  }

  void step(std::size_t step) {
    begin_episodes(step);
    const auto actions = static_cast<std::size_t>(model_.nu);
    for (std::size_t env = 0; env < kEnvs; ++env) {
      const auto action = script_.actions[step].begin() + static_cast<std::ptrdiff_t>(env * actions);
      std::copy_n(action, actions, data_[env]->ctrl);
      for (int frame = 0; frame < frames_; ++frame) mujoco_.step(&model_, data_[env].get());
    }
  }
  // Also of the episodes that begin behind the last step.
  std::vector<double> last() {
    begin_episodes(script_.actions.size());
    std::vector<double> all;
    for (const rl::MujocoData& its : data_) all.insert(all.end(), its->qpos, its->qpos + model_.nq);
    return all;
  }

 private:
  void begin_episodes(std::size_t step) {
    for (; start_ != script_.starts.end() && start_->step == step; ++start_) {
      mjData& its = *data_[start_->env];
      mujoco_.reset_data(&model_, &its);
      std::ranges::copy(start_->qpos, its.qpos);
      std::ranges::copy(start_->qvel, its.qvel);
      mujoco_.forward(&model_, &its);
    }
  }

  const rl::MujocoLibrary& mujoco_ = rl::mujoco_library();
  const Script& script_;
  const std::unique_ptr<rl::MujocoTask> one_;
  const mjModel& model_;
  std::vector<Script::Start>::const_iterator start_;
  int frames_ = 1;
  std::vector<rl::MujocoData> data_;
};

class Group {
 public:
  explicit Group(const Script& script)
      : script_(script), group_(script.kind.entry.make(static_cast<int>(kEnvs))), buffers_(*group_) {
    std::vector<std::uint64_t> seeds(kEnvs);
    for (std::size_t env = 0; env < kEnvs; ++env) seeds[env] = kSeed + env;
    group_->reset(seeds, buffers_.arrays());
  }
  void step(std::size_t step) {
    group_->step({.box = script_.actions[step].data()}, buffers_.arrays());
    for (std::size_t env = 0; env < kEnvs; ++env)
      ends_ += (buffers_.terminated()[env] | buffers_.truncated()[env]) != 0;
  }
  [[nodiscard]] std::size_t ends() const { return ends_; }

 private:
  const Script& script_;
  const std::unique_ptr<rl::EnvGroup> group_;
  rl::EnvBuffers buffers_;
  std::size_t ends_ = 0;
};

// Steps are timed in blocks, so that the clock costs nothing.
constexpr std::size_t kBlock = 20;

template <typename Contender>
double seconds_of_block(Contender& contender, std::size_t first) {
  const Clock::time_point start = Clock::now();
  for (std::size_t i = first; i < first + kBlock; ++i) contender.step(i);
  return seconds_since(start) / static_cast<double>(kBlock);
}

// From the median block, which other processes of the machine do not touch.
void tell(const std::string& id, const char* contender, const Samples& samples) {
  print({.case_name = id,
         .contender = contender,
         .unit = "1/s",
         .value = kEnvs / samples.quantile(0.5),
         .p99 = kEnvs / samples.quantile(0.99),
         .samples = samples.size()});
}

// The contenders take turns, so that both meet the machine in the same moods. The answer: the bare loop ends where the
// tasks do, and the group has as many episodes.
bool measure(const rl::GymnasiumTask& kind, Size size) {
  const Script script = script_of(kind, kBlock * (size == Size::kSmoke ? 3 : 75));
  Bare bare(script);
  Group group(script);
  std::vector<double> of_bare, of_group;
  for (std::size_t first = 0; first < script.actions.size(); first += kBlock) {
    of_bare.push_back(seconds_of_block(bare, first));
    of_group.push_back(seconds_of_block(group, first));
  }
  tell(kind.entry.spec.id, "mj_step", Samples(of_bare));
  tell(kind.entry.spec.id, "tandem", Samples(of_group));
  if (bare.last() == script.last && group.ends() + kEnvs == script.starts.size()) return true;
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
