#include "tandem/rl/policy/actor/make_actor.h"

#include "tandem/base/philox.h"
#include "tandem/rl/policy/actor/mlp_actor.h"
#include "tandem/rl/policy/actor/module_actor.h"

namespace tandem::rl {
namespace {

// Every step of the environments waits for its actions. The way to a device and back is worth it when a core would be
// busy for longer; this many products take a slow core about a millisecond. The number comes from that arithmetic and
// was not measured.
constexpr std::int64_t kMostProductsOnHost = 10'000'000;

// Whether the copy of the parameters on the CPU is to act: always for a policy that lies there.
bool acts_on_host(const MlpPolicy& policy, std::int64_t rows) {
  std::int64_t weights = 0;
  for (const at::Tensor& parameter : policy.parameters()) {
    if (parameter.is_cpu()) return true;
    weights += parameter.numel();
  }
  return weights * rows <= kMostProductsOnHost;
}

}  // namespace

std::unique_ptr<Actor> make_actor(ActorCritic& policy, const ActorOptions& options, std::int64_t rows,
                                  std::uint64_t run_seed, int group) {
  const std::uint64_t seed = derive_seed(run_seed, SeedPurpose::kAction, static_cast<std::uint64_t>(group));
  auto* mlp = dynamic_cast<MlpPolicy*>(&policy);
  if (mlp != nullptr && MlpActor::can_run(*mlp) && acts_on_host(*mlp, rows))
    return std::make_unique<MlpActor>(*mlp, options, rows, seed);
  return std::make_unique<ModuleActor>(policy, options, rows, seed);
}

}  // namespace tandem::rl
