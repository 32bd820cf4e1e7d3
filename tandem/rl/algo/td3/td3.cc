#include "tandem/rl/algo/td3/td3.h"

#include <ATen/ATen.h>

#include <cmath>

#include "tandem/rl/algo/off_policy/agent_step.h"
#include "tandem/rl/algo/off_policy/critic_choice.h"
#include "tandem/rl/algo/off_policy/network_actor.h"

namespace tandem::rl {
namespace {

Td3Targets copies_of(Td3Policy& policy, const NetworkOptions& networks) {
  const c10::Device device = policy.parameters().front().device();
  const Spec& spec = policy.spec();
  return {.actor = module_for_target<ObservationNetwork>(device, spec, networks, action_elements(spec.action)),
          .critics = module_for_target<ActionValues>(device, spec, networks, std::ssize(policy.critics().networks()))};
}

}  // namespace

void Td3::set_optimizers(const Td3Options& options, learner::TeamOptions& team) {
  const double actor = options.learning_rate, critic = options.critic_learning_rate.value_or(actor);
  team.flat.groups = {{.name = "actor", .prefixes = {"actor"}}, {.name = "critics", .prefixes = {"critics"}}};
  team.optimizer = {model::AdamOptions{.lr = actor, .eps = options.adam_eps},
                    model::AdamOptions{.lr = critic, .eps = options.adam_eps}};
}

Td3::Td3(learner::Member member, Td3Policy& policy, const NetworkOptions& networks, const Td3Options& options,
         InstructionSet set)
    : member_(std::move(member)),
      policy_(policy),
      copies_(copies_of(policy, networks)),
      actor_target_(member_.replica.parameters(), "actor", copies_.actor),
      critics_target_(member_.replica.parameters(), "critics", copies_.critics),
      options_(options),
      kernels_(choose_kernels(policy, options, set, why_not_behind(policy.actor().encoder(), why_not_fused(options)))) {
  if (!kernels_.fused) return;
  const std::int64_t rows = options.batch_size / member_.replica.placement().shards;
  fused_ = std::make_unique<FusedTd3>(policy_, copies_, rows, options_, set);
}

// The parts that a step does not concern get no gradient, so the optimizer leaves them and their moments alone.
learner::LearnerReport Td3::learn(const Turn& now, std::span<OffPolicySums> sums,
                                  std::span<std::vector<float>> errors) {
  const std::vector<std::size_t> chosen = chosen_critics(options_, now.seed);
  learner::LearnerReport report = step_agent(
      member_, now, fused_.get(),
      [&](FusedTd3& fused, const TransitionRows& rows, std::size_t local) {
        return fused.critic_loss(rows, chosen, sums[local], errors_of(errors, local));
      },
      [&](const TransitionRows& rows, std::size_t local) {
        return td3_critic_loss(policy_, copies_, chosen, rows, options_, sums[local], errors_of(errors, local));
      });
  if ((now.turn + 1) % options_.policy_every != 0) return report;
  const learner::LearnerReport its = step_agent(
      member_, now, fused_.get(),
      [&](FusedTd3& fused, const TransitionRows& rows, std::size_t local) {
        return fused.policy_loss(rows, sums[local]);
      },
      [&](const TransitionRows& rows, std::size_t local) { return td3_policy_loss(policy_, rows, sums[local]); });
  report.step.wait_seconds += its.step.wait_seconds;
  if ((now.turn + 1) / options_.policy_every % options_.target_every != 0) return report;
  actor_target_.follow(options_.tau);
  critics_target_.follow(options_.tau);
  return report;
}

std::unique_ptr<Actor> Td3::make_explorer(const ActorOptions& options, std::int64_t rows, std::uint64_t run_seed,
                                          int group) {
  ActorOptions acting = options;
  acting.noise_correlation = static_cast<float>(options_.noise_correlation);
  if (!kernels_.fused) return make_actor(policy_, acting, rows, run_seed, group);
  return std::make_unique<NetworkActor>(
      policy_, policy_.actor(),
      NetworkActor::Options{.head = ActorHead::kAction,
                            .least_log_std = static_cast<float>(std::log(options_.exploration_noise)),
                            .acting = acting},
      rows, Philox(derive_seed(run_seed, SeedPurpose::kAction, static_cast<std::uint64_t>(group))));
}

model::NamedTensors Td3::targets() const {
  model::NamedTensors all = actor_target_.state();
  for (const auto& each : critics_target_.state()) all.push_back(each);
  return all;
}

void Td3::load_targets(const model::NamedTensors& saved) { model::copy_named(saved, targets()); }

}  // namespace tandem::rl
