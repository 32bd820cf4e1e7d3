#include "tandem/rl/algo/sac/sac.h"

#include <ATen/ATen.h>

#include "tandem/rl/algo/off_policy/agent_step.h"
#include "tandem/rl/algo/off_policy/critic_choice.h"
#include "tandem/rl/algo/off_policy/network_actor.h"

namespace tandem::rl {
void Sac::set_optimizers(const SacOptions& options, learner::TeamOptions& team) {
  const double actor = options.learning_rate, critic = options.critic_learning_rate.value_or(actor);
  team.flat.groups = {{.name = "actor", .prefixes = {"actor", "log_temperature"}},
                      {.name = "critics", .prefixes = {"critics"}}};
  team.optimizer = {model::AdamOptions{.lr = actor, .eps = options.adam_eps},
                    model::AdamOptions{.lr = critic, .eps = options.adam_eps}};
}

Sac::Sac(learner::Member member, SacPolicy& policy, const NetworkOptions& networks, const SacOptions& options,
         InstructionSet set)
    : member_(std::move(member)),
      policy_(policy),
      target_critics_(module_for_target<ActionValues>(policy.log_temperature().device(), policy.spec(), networks,
                                                      std::ssize(policy.critics().networks()))),
      target_(member_.replica.parameters(), "critics", target_critics_),
      options_(options),
      kernels_(choose_kernels(policy, options, set, why_not_behind(policy.actor().encoder(), why_not_fused(options)))) {
  if (!kernels_.fused) return;
  const std::int64_t rows = options.batch_size / member_.replica.placement().shards;
  fused_ = std::make_unique<FusedSac>(policy_, *target_critics_, rows, options_, set);
}

learner::LearnerReport Sac::learn(const Turn& now, std::span<OffPolicySums> sums,
                                  std::span<std::vector<float>> errors) {
  learner::LearnerReport report = step_critics(now, sums, errors);
  if (now.turn % options_.policy_every == 0) report.step.wait_seconds += step_policy(now, sums).step.wait_seconds;
  if (now.turn % options_.target_every == 0) target_.follow(options_.tau);
  return report;
}

// In both steps the parts that are not concerned get no gradient, so the optimizer leaves them and their moments alone.
learner::LearnerReport Sac::step_critics(const Turn& now, std::span<OffPolicySums> sums,
                                         std::span<std::vector<float>> errors) {
  const std::vector<std::size_t> chosen = chosen_critics(options_, now.seed);
  const auto write = [&](FusedSac& fused, const TransitionRows& rows, std::size_t local) {
    return fused.critic_loss(rows, chosen, sums[local], errors_of(errors, local));
  };
  const auto loss = [&](const TransitionRows& rows, std::size_t local) {
    return sac_critic_loss(policy_, *target_critics_, chosen, rows, options_, sums[local], errors_of(errors, local));
  };
  return step_agent(member_, now, fused_.get(), write, loss);
}

learner::LearnerReport Sac::step_policy(const Turn& now, std::span<OffPolicySums> sums) {
  const auto write = [&](FusedSac& fused, const TransitionRows& rows, std::size_t local) {
    return fused.policy_loss(rows, sums[local]);
  };
  const auto loss = [&](const TransitionRows& rows, std::size_t local) {
    return sac_policy_loss(policy_, rows, options_, sums[local]);
  };
  return step_agent(member_, now, fused_.get(), write, loss);
}

std::unique_ptr<Actor> Sac::make_explorer(const ActorOptions& options, std::int64_t rows, std::uint64_t run_seed,
                                          int group) {
  ActorOptions acting = options;
  acting.noise_correlation = static_cast<float>(options_.noise_correlation);
  if (!kernels_.fused) return make_actor(policy_, acting, rows, run_seed, group);
  return std::make_unique<NetworkActor>(
      policy_, policy_.actor(),
      NetworkActor::Options{.least_log_std = kLeastLogStd, .most_log_std = kMostLogStd, .acting = acting}, rows,
      Philox(derive_seed(run_seed, SeedPurpose::kAction, static_cast<std::uint64_t>(group))));
}

void Sac::append_figures(std::vector<std::pair<std::string, double>>& figures) const {
  figures.emplace_back("temperature", temperature_of(policy_, options_).item<double>());
}

}  // namespace tandem::rl
