#include <tandem/rl/algo/ppo/ppo_run.h>
#include <tandem/rl/env/env_registry.h>
#include <tandem/rl/policy/mlp_policy.h>

#include <iostream>

using namespace tandem;

// The speaker sees a color and says a word; then the listener, who hears the word alone, points to a color.
struct Reference {
  static constexpr std::int64_t kColors = 3;

  static rl::MultiAgentSpec spec() {
    const std::vector<rl::Leaf> seen{{.type = rl::ElementType::kInt64, .low = {0}, .high = {kColors - 1}}};
    return {.id = "Reference-v0",
            .agents = {{.name = "speaker", .observation = seen, .action = rl::Discrete{kColors}},
                       {.name = "listener", .observation = seen, .action = rl::Discrete{kColors}}},
            .reward_threshold = 1.9};
  }
  void reset(rl::NumpyGenerator& random) {
    color = random.integers(0, kColors);
    word = 0;
    spoken = false;
  }
  void step(std::span<const rl::AgentAction> actions, std::span<rl::AgentOutcome> outcomes) {
    if (!spoken) {
      word = actions[0].discrete.front();
      spoken = true;
      return;
    }
    const double reward = actions[1].discrete.front() == color ? 1.0 : 0.0;
    for (rl::AgentOutcome& outcome : outcomes) outcome = {.reward = reward, .terminated = true};
  }
  std::int64_t observe(std::size_t agent) const { return agent == 0 ? color : word; }
  bool acts(std::size_t agent) const { return (agent == 1) == spoken; }

  std::int64_t color = 0, word = 0;
  bool spoken = false;
};

int main() {
  rl::EnvRegistry environments;
  environments.add_multi_agent<Reference>();
  rl::PpoSetup setup;
  setup.seed = 1;
  setup.total_steps = 65'536;
  setup.ppo.learning_rate = 0.003;
  setup.ppo.entropy_coef = 0.02;
  setup.agents.emplace();
  setup.agents->make_envs = [&](int count) { return environments.find_multi_agent("Reference-v0")->make(count); };
  setup.agents->make_policy = [](const rl::MappedPolicy& policy, at::Generator generator) {
    return std::make_shared<rl::MlpPolicy>(policy.spec, rl::MlpPolicyOptions{.hidden = {32}}, generator);
  };
  rl::PpoRun run(setup);
  while (run.env_steps() < setup.total_steps) {
    const rl::RunReport report = run.update();
    std::cout << "return " << report.episode_return_mean;
    for (const rl::PolicyReport& policy : report.policies)
      std::cout << "  " << policy.name << " " << policy.decisions << " decisions, entropy " << policy.learning->entropy;
    std::cout << '\n';
  }
}
