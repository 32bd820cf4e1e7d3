// Question: how many steps a second does an env group of environments in Python make, with random actions, in so many
// worker processes?
//
//   python_envs_bench PYTHON SECONDS ID COUNT WORKERS
//
// bench/suite/python_envs.py and python_atari.py call it, and compare with vector environments of Python itself. An
// Atari game is stepped with the options that bench/peers/vector_step.py sets, too.
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "bench/timing.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/env_buffers.h"
#include "tandem/rl/env/isolated/several_workers.h"
#include "tandem/rl/env/python/python_envs.h"

namespace tandem::bench {
namespace {

struct Case {
  std::string python, id;
  double seconds = 0;
  int count = 0, workers = 0;
};

constexpr int kPrepared = 16;

// Of so many steps, drawn beforehand, as those of bench/peers/step_line.py.
std::vector<std::int64_t> prepared_actions(const rl::Spec& spec, int count) {
  std::mt19937_64 generator(0);
  std::uniform_int_distribution<std::int64_t> one(0, std::get<rl::Discrete>(spec.action).n - 1);
  std::vector<std::int64_t> actions;
  for (int i = 0; i < kPrepared * count; ++i) actions.push_back(one(generator));
  return actions;
}

void measure(const Case& its) {
  const rl::EnvOptionTexts options{{rl::kInterpreterOption, its.python}};
  rl::EnvRegistry known;
  for (rl::EnvKind& kind : rl::python_kinds({})) known.add_kind(std::move(kind));
  known.set_options(its.id, options);
  rl::IsolationOptions isolation = rl::python_isolation({}, its.id, options);
  if (!rl::steps_by_threads(its.id)) isolation.spin = spin_budget_for(1 + its.workers);
  const auto group = rl::in_workers(known.spec(its.id), its.count, its.workers, isolation, nullptr);
  rl::EnvBuffers buffers(*group);
  std::vector<std::uint64_t> seeds;
  for (int e = 0; e < its.count; ++e) seeds.push_back(static_cast<std::uint64_t>(e));
  group->reset(seeds, buffers.arrays());
  const std::vector<std::int64_t> actions = prepared_actions(group->spec(), its.count);
  const auto make = [&](int steps) {
    const Clock::time_point start = Clock::now();
    for (int step = 0; step < steps; ++step)
      group->step({.discrete = actions.data() + step % kPrepared * its.count}, buffers.arrays());
    return seconds_since(start);
  };
  const int steps = repetitions(make(20) / 20, its.seconds);
  const std::string id = its.id.substr(its.id.rfind(':') + 1);
  print({.case_name = concat(id, " x ", its.count),
         .contender = "tandem",
         .unit = "1/s",
         .value = its.count * steps / make(steps),
         .samples = static_cast<std::size_t>(steps)});
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  if (argc != 6) {
    std::cerr << "usage: python_envs_bench PYTHON SECONDS ID COUNT WORKERS\n";
    return 2;
  }
  try {
    tandem::bench::measure({.python = argv[1],
                            .id = argv[3],
                            .seconds = std::strtod(argv[2], nullptr),
                            .count = std::atoi(argv[4]),
                            .workers = std::atoi(argv[5])});
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
