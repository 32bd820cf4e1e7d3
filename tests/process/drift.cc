// Drift-v0, a plugin: a random walk that the action pushes. It has no save and load, so a resumed run starts new
// episodes.
#include <array>
#include <cstdint>

#include "tandem/rl/env/plugin.h"

namespace {

struct Drift {
  static tandem::rl::Spec spec() {
    return {.id = "Drift-v0",
            .observation = {{.name = "place", .shape = {1}}},
            .action = tandem::rl::Discrete{2},
            .max_episode_steps = 50};
  }
  std::array<float, 1> reset(tandem::rl::NumpyGenerator& random) {
    random_ = &random;
    place_ = 0;
    return {place_};
  }
  tandem::rl::StepResult<std::array<float, 1>> step(std::int64_t action) {
    place_ += action == 1 ? 0.5F : -0.5F;
    place_ += static_cast<float>(random_->integers(0, 3) - 1);
    return {.observation = {place_}, .reward = place_ < 1 && place_ > -1 ? 1.0 : 0.0};
  }

 private:
  tandem::rl::NumpyGenerator* random_ = nullptr;
  float place_ = 0;
};

}  // namespace

TANDEM_ENV_PLUGIN(Drift);
