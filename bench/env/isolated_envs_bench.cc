// Question: how many steps per second do two shards make, each on a thread of its own, when their env groups live in
// processes of their own (isolate_envs), against the same groups in this process? With an environment that takes no
// time, the answer is the price of a wake-up; with one that takes 20 us a step, it is what a user sees.
//
// Called with `env-worker`, the program is such a process.
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/timing.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/isolated/env_worker.h"
#include "tandem/rl/env/isolated/isolated_envs.h"

namespace tandem::bench {
namespace {

constexpr int kShards = 2;
constexpr double kSecondsOfACase = 1;

// Computes for 20 us a step.
struct Slow {
  static rl::Spec spec() {
    return {.id = "Slow-v0", .observation = {{.shape = {1}}}, .action = rl::Discrete{2}, .max_episode_steps = 200};
  }
  std::array<float, 1> reset(rl::NumpyGenerator& /*random*/) { return {0}; }
  rl::StepResult<std::array<float, 1>> step(std::int64_t action) {
    const Clock::time_point end = Clock::now() + std::chrono::microseconds(20);
    while (Clock::now() < end) {
    }
    return {.observation = {static_cast<float>(action)}, .reward = 1};
  }
};

rl::EnvRegistry environments() {
  rl::EnvRegistry known = rl::EnvRegistry::native();
  known.add<Slow>();
  return known;
}

// One shard: a group with actions that are the same in every step.
class Shard {
 public:
  explicit Shard(std::unique_ptr<rl::EnvGroup> group) : group_(std::move(group)), buffers_(*group_) {
    for (std::size_t env = 0; env < buffers_.rows(); ++env) actions_.push_back(static_cast<std::int64_t>(env % 2));
    std::vector<std::uint64_t> seeds(actions_.begin(), actions_.end());
    group_->reset(seeds, buffers_.arrays());
  }
  void step() { group_->step({.discrete = actions_.data()}, buffers_.arrays()); }
  [[nodiscard]] std::vector<float> shown() const {
    std::vector<float> all;
    for (std::size_t env = 0; env < buffers_.rows(); ++env) {
      const auto row = buffers_.observation<float>(env);
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }

 private:
  std::unique_ptr<rl::EnvGroup> group_;
  rl::EnvBuffers buffers_;
  std::vector<std::int64_t> actions_;
};

using Make = std::unique_ptr<rl::EnvGroup> (*)(const std::string& env, int count);
std::unique_ptr<rl::EnvGroup> make_inside(const std::string& env, int count) { return environments().make(env, count); }
std::unique_ptr<rl::EnvGroup> make_isolated(const std::string& env, int count) {
  rl::IsolationOptions options{.task = {.env = env}, .spin = spin_budget_for(2 * kShards)};
  return std::make_unique<rl::IsolatedEnvs>(environments().spec(env), count, std::move(options), nullptr);
}

// Seconds that all shards took for so many steps each.
double time_of(std::vector<std::unique_ptr<Shard>>& shards, int steps) {
  const Clock::time_point start = Clock::now();
  std::vector<std::jthread> threads;
  for (const std::unique_ptr<Shard>& shard : shards) {
    threads.emplace_back([&shard, steps] {
      for (int i = 0; i < steps; ++i) shard->step();
    });
  }
  threads.clear();
  return seconds_since(start);
}

std::vector<std::unique_ptr<Shard>> shards_of(Make make, const std::string& env, int count) {
  std::vector<std::unique_ptr<Shard>> shards;
  for (int shard = 0; shard < kShards; ++shard) shards.push_back(std::make_unique<Shard>(make(env, count)));
  return shards;
}

void measure(const std::string& env, int count, const char* contender, Make make, Size size) {
  std::vector<std::unique_ptr<Shard>> shards = shards_of(make, env, count);
  const double once = time_of(shards, 20) / 20;
  const int steps = size == Size::kSmoke ? 20 : repetitions(once, kSecondsOfACase);
  const double seconds = time_of(shards, steps);
  print({.case_name = concat(env, " x ", count),
         .contender = contender,
         .unit = "1/s",
         .value = kShards * count * steps / seconds,
         .samples = static_cast<std::size_t>(steps)});
}

int run(Size size) {
  Shard inside(make_inside("CartPole-v1", 8)), isolated(make_isolated("CartPole-v1", 8));
  for (int step = 0; step < 100; ++step) {
    inside.step();
    isolated.step();
    if (inside.shown() == isolated.shown()) continue;
    std::cerr << "a group in a process of its own does not show what it shows here\n";
    return 1;
  }
  for (const auto& [env, count] :
       {std::pair{"CartPole-v1", 64}, std::pair{"CartPole-v1", 1024}, std::pair{"Slow-v0", 16}}) {
    measure(env, count, "isolated", make_isolated, size);
    measure(env, count, "in this process", make_inside, size);
  }
  return 0;
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  if (argc == 2 && argv[1] == std::string("env-worker")) {
    tandem::rl::serve_envs(tandem::bench::environments());
    return 0;
  }
  return tandem::bench::bench_main(argc, argv, tandem::bench::run);
}
