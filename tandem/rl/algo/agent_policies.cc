#include "tandem/rl/algo/agent_policies.h"

#include <ATen/ATen.h>

#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/rl/policy/policy.h"

namespace tandem::rl {
namespace {

// Linux cuts thread names at 15 characters; three are left for a space and the replica's number.
constexpr std::size_t kShownName = 12;

}  // namespace

std::uint64_t seed_of_policy(std::uint64_t run_seed, std::size_t policy) {
  return derive_seed(run_seed, SeedPurpose::kPolicy, policy);
}

std::shared_ptr<ActorCritic> make_mapped_policy(const NamedPolicyFactory& make, const MappedPolicy& policy,
                                                std::uint64_t seed) {
  // A fresh generator for each module: all copies of a policy begin with the same parameters.
  at::Generator generator = at::detail::createCPUGenerator(derive_seed(seed, SeedPurpose::kParameters, 0));
  std::shared_ptr<ActorCritic> module = make(policy, generator);
  if (dynamic_cast<const RecurrentActorCritic*>(module.get()) != nullptr)
    throw ConfigError(concat("policy '", policy.name, "' remembers; those of several agents do not so far"));
  if (!policy.trained) module->eval();
  return module;
}

std::vector<PolicySeat> policy_seats(const PolicyMap& map, std::span<const std::shared_ptr<ActorCritic>> policies,
                                     const ActorOptions& actor, int envs, std::uint64_t run_seed, int group) {
  std::vector<PolicySeat> seats;
  for (std::size_t p = 0; p < map.size(); ++p) {
    ActorCritic& module = *policies[p];
    const auto rows = static_cast<std::int64_t>(map[p].agents.size()) * envs;
    seats.push_back({.agents = map[p].agents,
                     .spec = map[p].spec,
                     .family = module.family(),
                     .actor = make_actor(module, actor, rows, seed_of_policy(run_seed, p), group),
                     .learns = map[p].trained});
  }
  return seats;
}

std::string threads_of_policy(const std::string& name) { return name.substr(0, kShownName); }

std::string policy_part(const std::string& name) { return "policy-" + name; }
std::string progress_part(const std::string& name) { return "progress-" + name; }
std::string generator_name(const std::string& policy) { return "generator." + policy; }

void append_under(const std::string& policy, const model::NamedTensors& tensors, model::NamedTensors& all) {
  for (const auto& [name, tensor] : tensors) all.emplace_back(concat(policy, "/", name), tensor);
}

}  // namespace tandem::rl
