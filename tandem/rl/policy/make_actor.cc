#include "tandem/rl/policy/make_actor.h"

#include "tandem/base/philox.h"
#include "tandem/rl/policy/mlp_actor.h"
#include "tandem/rl/policy/module_actor.h"

namespace tandem::rl {

std::unique_ptr<Actor> make_actor(ActorCritic& policy, const ActorOptions& options, std::int64_t rows,
                                  std::uint64_t run_seed, int group) {
  const std::uint64_t seed = derive_seed(run_seed, SeedPurpose::kAction, static_cast<std::uint64_t>(group));
  auto* mlp = dynamic_cast<MlpPolicy*>(&policy);
  if (mlp != nullptr && MlpActor::can_run(*mlp)) return std::make_unique<MlpActor>(*mlp, options, rows, seed);
  return std::make_unique<ModuleActor>(policy, options, rows, seed);
}

}  // namespace tandem::rl
