// Steps 64 corridors together and says what a walker earns who goes towards the light, and one who does not look.
#include <tandem/rl/env/env_buffers.h>
#include <tandem/rl/env/env_registry.h>

#include <cstdio>
#include <exception>
#include <numeric>
#include <vector>

#include "corridor.h"

namespace {

namespace rl = tandem::rl;

enum class Walker { kFollowsTheLight, kGoesForward };

// Mean return over the episodes that end within 600 steps.
double mean_return(rl::EnvGroup& group, Walker walker) {
  rl::EnvBuffers buffers(group);
  std::vector<std::uint64_t> seeds(buffers.rows());
  std::iota(seeds.begin(), seeds.end(), std::uint64_t{1});
  group.reset(seeds, buffers.arrays());

  std::vector<std::int64_t> actions(buffers.rows());
  std::vector<double> earned(buffers.rows());
  double sum = 0.0;
  int episodes = 0;
  for (int step = 0; step < 600; ++step) {
    for (std::size_t e = 0; e < actions.size(); ++e) {
      const float light = buffers.observation<float>(e)[1];
      actions[e] = walker == Walker::kGoesForward || light > 0.0f ? 1 : 0;
    }
    group.step({.discrete = actions.data()}, buffers.arrays());
    for (std::size_t e = 0; e < actions.size(); ++e) {
      earned[e] += buffers.reward()[e];
      if (buffers.terminated()[e] == 0 && buffers.truncated()[e] == 0) continue;
      sum += earned[e];
      earned[e] = 0.0;
      ++episodes;
    }
  }
  return sum / episodes;
}

}  // namespace

int main() {
  try {
    rl::EnvRegistry registry = rl::EnvRegistry::native();
    registry.add<Corridor>();
    const auto group = registry.make("Corridor-v0", 64);
    std::printf("follows the light: %.3f a walk (solved at %.2f)\n", mean_return(*group, Walker::kFollowsTheLight),
                *group->spec().reward_threshold);
    std::printf("always forward:    %.3f a walk\n", mean_return(*group, Walker::kGoesForward));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
