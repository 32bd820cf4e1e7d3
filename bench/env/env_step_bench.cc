// Question: how many steps per second does one thread make with each native environment, 64 and 4,096 at a time, with
// random actions and episodes that restart by themselves?
#include <algorithm>
#include <cstring>
#include <iostream>
#include <memory>
#include <variant>
#include <vector>

#include "bench/timing.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/env_registry.h"
#include "tandem/rl/env/mujoco/mujoco_envs.h"

namespace tandem::bench {
namespace {

constexpr double kSecondsOfACase = 0.5;
constexpr std::size_t kPrepared = 16;  // steps whose actions are drawn beforehand and used again and again

// Environments of one group with everything that stepping them needs.
class Walk {
 public:
  Walk(const rl::EnvRegistry& registry, const std::string& id, int count, int first_env)
      : group_(registry.make(id, count)), buffers_(*group_) {
    std::vector<std::uint64_t> seeds;
    for (int env = 0; env < count; ++env)
      seeds.push_back(static_cast<std::uint64_t>(first_env) + static_cast<std::uint64_t>(env));
    group_->reset(seeds, buffers_.arrays());
    for (std::size_t step = 0; step < kPrepared; ++step) {
      for (int env = 0; env < count; ++env)
        draw(step, static_cast<std::uint64_t>(first_env) + static_cast<std::uint64_t>(env));
    }
  }

  void step(std::size_t number) {
    const std::size_t first = number % kPrepared * static_cast<std::size_t>(group_->size());
    rl::EnvActions actions;
    if (box_.empty()) {
      actions.discrete = discrete_.data() + first;
    } else {
      actions.box = box_.data() + first;
    }
    group_->step(actions, buffers_.arrays());
  }

  [[nodiscard]] const rl::EnvBuffers& buffers() const { return buffers_; }
  [[nodiscard]] int size() const { return group_->size(); }
  [[nodiscard]] rl::ElementType observation_type() const { return group_->spec().observation.front().type; }

 private:
  // The action of an environment depends on its number alone, not on the group that it is in.
  void draw(std::size_t step, std::uint64_t env) {
    Philox random(step, env);
    if (const auto* box = std::get_if<rl::Box>(&group_->spec().action)) {
      box_.push_back(static_cast<float>(box->low[0] + (box->high[0] - box->low[0]) * random.uniform_double()));
    } else {
      const std::int64_t options = std::get<rl::Discrete>(group_->spec().action).n;
      discrete_.push_back(static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(options))));
    }
  }

  std::unique_ptr<rl::EnvGroup> group_;
  rl::EnvBuffers buffers_;
  std::vector<std::int64_t> discrete_;
  std::vector<float> box_;
};

template <typename Element>
bool same_observation(const Walk& all, std::size_t env, const Walk& alone) {
  const auto together = all.buffers().observation<Element>(env), single = alone.buffers().observation<Element>(0);
  return std::equal(together.begin(), together.end(), single.begin(), single.end());
}

bool show_the_same(const Walk& all, std::size_t env, const Walk& alone) {
  switch (all.observation_type()) {
    case rl::ElementType::kFloat32:
      return same_observation<float>(all, env, alone);
    case rl::ElementType::kUInt8:
      return same_observation<std::uint8_t>(all, env, alone);
    case rl::ElementType::kInt64:
      return same_observation<std::int64_t>(all, env, alone);
    case rl::ElementType::kFloat64:
      return same_observation<double>(all, env, alone);
  }
  return false;
}

// Whether environment `env` of the group shows and earns what it does alone.
bool same_row(const Walk& all, std::size_t env, const Walk& alone) {
  return show_the_same(all, env, alone) && all.buffers().reward()[env] == alone.buffers().reward()[0] &&
         all.buffers().terminated()[env] == alone.buffers().terminated()[0] &&
         all.buffers().truncated()[env] == alone.buffers().truncated()[0];
}

// The answer: an environment does the same in a large group as alone, over restarts too.
bool steps_right(const rl::EnvRegistry& registry, const std::string& id) {
  constexpr int kEnvs = 64, kSteps = 1100;  // beyond the longest time limit
  Walk all(registry, id, kEnvs, 0);
  std::vector<std::unique_ptr<Walk>> alone;
  for (int env = 0; env < kEnvs; env += 9) alone.push_back(std::make_unique<Walk>(registry, id, 1, env));
  for (std::size_t step = 0; step < kSteps; ++step) {
    all.step(step);
    for (std::size_t i = 0; i < alone.size(); ++i) {
      alone[i]->step(step);
      if (!same_row(all, 9 * i, *alone[i])) return false;
    }
  }
  return true;
}

std::vector<double> time_steps(Walk& walk, int count) {
  std::vector<double> seconds;
  for (int i = 0; i < count; ++i) {
    const Clock::time_point start = Clock::now();
    walk.step(static_cast<std::size_t>(i));
    seconds.push_back(seconds_since(start));
  }
  return seconds;
}

void measure(const rl::EnvRegistry& registry, const std::string& id, int count, Size size) {
  Walk walk(registry, id, count, 0);
  Samples samples(time_steps(walk, 50));
  if (size == Size::kFull) samples = Samples(time_steps(walk, repetitions(samples.quantile(0.5), kSecondsOfACase)));
  // From the mean, since a step in which episodes restart takes longer than the median one.
  print({.case_name = concat(id, " x ", count),
         .contender = "tandem",
         .unit = "1/s",
         .value = count / samples.mean(),
         .p99 = count / samples.quantile(0.99),
         .samples = samples.size()});
}

int run(Size size) {
  const rl::EnvRegistry registry = rl::EnvRegistry::native();
  for (const rl::EnvEntry& entry : registry.entries()) {
    if (std::ranges::count(rl::mujoco_names(), entry.spec.id) > 0) continue;  // mujoco_bench.cc measures these
    if (!steps_right(registry, entry.spec.id)) {
      std::cerr << entry.spec.id << ": an environment in a group does not do what it does alone\n";
      return 1;
    }
    for (const int count : {64, 4096}) measure(registry, entry.spec.id, count, size);
  }
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) { return tandem::bench::bench_main(argc, argv, tandem::bench::run); }
