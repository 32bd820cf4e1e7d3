#include <tandem/rl/algo/ppo/ppo_run.h>
#include <tandem/rl/env/env_registry.h>
#include <tandem/rl/policy/recurrent_policy.h>

#include <iostream>

using namespace tandem;

// Shows a light once, and asks two steps later where it was.
struct Corner {
  static rl::Spec spec() {
    return {.id = "Corner-v0", .observation = {{.shape = {1}}}, .action = rl::Discrete{2}, .reward_threshold = 0.95};
  }
  std::array<float, 1> reset(rl::NumpyGenerator& random) {
    light = random.integers(0, 2);
    step_number = 0;
    return {light == 1 ? 1.0F : -1.0F};
  }
  rl::StepResult<std::array<float, 1>> step(std::int64_t turn) {
    if (++step_number < 3) return {.observation = {0.0F}};
    return {.observation = {0.0F}, .reward = turn == light ? 1.0 : 0.0, .terminated = true};
  }
  std::int64_t light = 0, step_number = 0;
};

int main() {
  rl::EnvRegistry environments;
  environments.add<Corner>();
  rl::PpoSetup setup;
  setup.seed = 1;
  setup.total_steps = 16'384;
  setup.ppo.learning_rate = 0.01;
  setup.ppo.sequences = rl::SequenceOptions{.length = 16};  // steps that gradients flow back
  setup.make_envs = [&](int count) { return environments.make("Corner-v0", count); };
  setup.make_policy = rl::recurrent_policy_factory({.mlp = {.hidden = {16}}, .cell = rl::CellKind::kGru, .size = 16});
  rl::PpoRun run(setup);
  while (run.env_steps() < setup.total_steps) std::cout << "return " << run.update().episode_return_mean << '\n';
}
