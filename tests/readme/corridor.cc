#include <tandem/rl/env/plugin.h>
using namespace tandem::rl;
struct Corridor {  // walk to the end of a corridor
  using Place = std::array<float, 1>;
  static Spec spec() {
    return {.id = "Corridor-v0", .observation = {{.shape = {1}}}, .action = Discrete{2}, .max_episode_steps = 50};
  }
  Place reset(NumpyGenerator& random) { return {place = float(random.integers(0, 5))}; }
  StepResult<Place> step(std::int64_t action) {
    place += action == 1 ? 1 : -1;
    return {.observation = {place}, .reward = place >= 10 ? 1 : -0.01, .terminated = place >= 10};
  }
  float place = 0;
};
TANDEM_ENV_PLUGIN(Corridor);
