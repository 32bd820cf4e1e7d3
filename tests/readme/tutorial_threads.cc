#include <tandem/rl/algo/impala/impala_run.h>
#include <tandem/rl/env/env_registry.h>
#include <tandem/rl/policy/mlp_policy.h>

#include <iostream>

using namespace tandem;

// Steer to a buoy that lies to the left or to the right.
struct Buoy {
  using Sight = std::array<float, 2>;
  static rl::Spec spec() {
    return {.id = "Buoy-v0",
            .observation = {{.shape = {2}}},
            .action = rl::Discrete{3},
            .max_episode_steps = 30,
            .reward_threshold = 0.8};
  }
  Sight reset(rl::NumpyGenerator& random) {
    place = 0;
    buoy = float(random.integers(3, 8)) * (random.integers(0, 2) == 0 ? -1 : 1);
    return {place / 10, buoy / 10};
  }
  rl::StepResult<Sight> step(std::int64_t turn) {
    place += float(turn) - 1;
    return {.observation = {place / 10, buoy / 10}, .reward = place == buoy ? 1 : -0.01, .terminated = place == buoy};
  }
  float place = 0, buoy = 0;
};

int main() {
  rl::EnvRegistry environments;
  environments.add<Buoy>();
  rl::ImpalaSetup setup;
  setup.seed = 1;
  setup.total_steps = 100'000;
  setup.impala.num_envs = 16;
  setup.impala.workers = 2;  // threads that step eight environments each
  setup.impala.learning_rate = 0.002;
  setup.impala.max_policy_lag = 8;  // learner steps; workers wait rather than bring what is older
  setup.make_envs = [&](int count) { return environments.make("Buoy-v0", count); };
  setup.make_policy = rl::mlp_policy_factory({});
  rl::ImpalaRun run(setup);
  rl::RunReport report;
  while (run.env_steps() < setup.total_steps || !run.all_reported()) {
    report = run.update();
    std::cout << "return " << report.episode_return_mean << " policy lag " << report.pipeline->lag.mean()
              << " learner idle " << report.pipeline->learner_idle << '\n';
  }
  std::cout << report.pipeline->samples_sampled << " sampled, " << report.pipeline->samples_trained << " learned\n"
            << pipeline::advice(*report.pipeline) << '\n';
}
