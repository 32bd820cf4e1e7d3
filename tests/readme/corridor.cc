#include <tandem/rl/env/plugin.h>

#include <array>

struct Corridor {  // walk to the end of a corridor
  using Place = std::array<float, 1>;
  static tandem::rl::Spec spec() {
    return {.id = "Corridor-v0",
            .observation = {{.shape = {1}}},
            .action = tandem::rl::Discrete{2},
            .max_episode_steps = 50,
            .reward_threshold = 0.8};
  }
  Place reset(tandem::rl::NumpyGenerator& random) { return {place = float(random.integers(0, 5))}; }
  tandem::rl::StepResult<Place> step(std::int64_t action) {
    place += action == 1 ? 1 : -1;
    return {.observation = {place}, .reward = place >= 10 ? 1 : -0.01, .terminated = place >= 10};
  }
  float place = 0;
};
TANDEM_ENV_PLUGIN(Corridor);
