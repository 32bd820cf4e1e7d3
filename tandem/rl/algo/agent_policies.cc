#include "tandem/rl/algo/agent_policies.h"

#include <ATen/ATen.h>

#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {

PolicyMap map_of(const RunSetup& setup, Spec& whole) {
  if (setup.agents) {
    const MultiAgentSpec agents = setup.agents->make_envs(1)->spec();
    whole = whole_spec(agents);
    return policy_map(agents, setup.agents->policies);
  }
  whole = setup.make_envs(1)->spec();
  if (whole.agents == 1) return {MappedPolicy{.name = "", .agents = {0}, .spec = whole}};
  throw ConfigError(concat(whole.id, " has ", whole.agents,
                           " agents in an environment, and the setup speaks of one; say whose policies there are "
                           "(RunSetup::agents)"));
}

std::uint64_t seed_of(const RunSetup& setup, std::size_t policy) {
  return setup.agents ? derive_seed(setup.seed, SeedPurpose::kPolicy, policy) : setup.seed;
}

std::shared_ptr<ActorCritic> build_policy(const RunSetup& setup, const PolicyMap& map, std::size_t policy) {
  // A fresh generator for each module: all copies of a policy begin with the same parameters.
  at::Generator generator =
      at::detail::createCPUGenerator(derive_seed(seed_of(setup, policy), SeedPurpose::kParameters, 0));
  if (!setup.agents) return setup.make_policy(map[policy].spec, generator);
  std::shared_ptr<ActorCritic> module = setup.agents->make_policy(map[policy], generator);
  if (dynamic_cast<const RecurrentActorCritic*>(module.get()) != nullptr)
    throw ConfigError(concat("policy '", map[policy].name, "' remembers; those of several agents do not so far"));
  if (!map[policy].trained) module->eval();
  return module;
}

std::vector<PolicySeat> policy_seats(const RunSetup& setup, const PolicyMap& map,
                                     std::span<const std::shared_ptr<ActorCritic>> policies, int envs, int group) {
  std::vector<PolicySeat> seats;
  for (std::size_t p = 0; p < map.size(); ++p) {
    ActorCritic& module = *policies[p];
    const auto rows = static_cast<std::int64_t>(map[p].agents.size()) * envs;
    seats.push_back({.agents = map[p].agents,
                     .spec = map[p].spec,
                     .family = module.family(),
                     .actor = make_actor(module, setup.actor, rows, seed_of(setup, p), group),
                     .learns = map[p].trained});
  }
  return seats;
}

// Linux cuts thread names at 15 characters; three are left for a space and the replica's number.
std::string threads_of_policy(const std::string& name) { return name.substr(0, 12); }

PolicyNames::PolicyNames(const std::string& policy)
    : one_agent(policy.empty()),
      part(one_agent ? "state" : "policy-" + policy),
      progress(one_agent ? "run" : "progress-" + policy),
      target(one_agent ? "target" : "target-" + policy),
      generator(one_agent ? "generator" : "generator." + policy),
      prefix(one_agent ? "" : policy + "/"),
      target_prefix(target + (one_agent ? "." : "/")) {}

}  // namespace tandem::rl
