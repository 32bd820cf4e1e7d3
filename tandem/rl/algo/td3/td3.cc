#include "tandem/rl/algo/td3/td3.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

namespace tandem::rl {
namespace {

// Modules of the networks' shapes; TargetNetwork gives them their values.
Td3Targets copies_of(Td3Policy& policy, const NetworkOptions& networks) {
  at::Generator unused = at::detail::createCPUGenerator(0);
  const auto count = static_cast<int>(policy.critics().networks().size());
  Td3Targets copies{.actor = std::make_shared<ObservationNetwork>(policy.spec(), networks,
                                                                         action_elements(policy.spec().action), unused),
                    .critics = std::make_shared<ActionValues>(policy.spec(), networks, count, unused)};
  const at::Device device = policy.parameters().front().device();
  copies.actor->to(device);
  copies.critics->to(device);
  return copies;
}

}  // namespace

void Td3::set_optimizers(const Td3Options& options, learner::TeamOptions& team) {
  const double actor = options.learning_rate, critic = options.critic_learning_rate.value_or(actor);
  team.flat.groups = {{.name = "actor", .prefixes = {"actor"}}, {.name = "critics", .prefixes = {"critics"}}};
  team.optimizer = {model::AdamOptions{.lr = actor, .eps = options.adam_eps},
                    model::AdamOptions{.lr = critic, .eps = options.adam_eps}};
}

Td3::Td3(learner::Member member, Td3Policy& policy, const NetworkOptions& networks, const Td3Options& options)
    : member_(std::move(member)),
      policy_(policy),
      copies_(copies_of(policy, networks)),
      actor_target_(member_.replica.parameters(), "actor", copies_.actor),
      critics_target_(member_.replica.parameters(), "critics", copies_.critics),
      options_(options) {}

// The parts that a step does not concern get no gradient, so the optimizer leaves them and their moments alone.
learner::LearnerReport Td3::learn(const Turn& now, std::span<OffPolicySums> sums,
                                  std::span<std::vector<float>> errors) {
  const int first = member_.replica.placement().mine.begin;
  const auto local = [first](const learner::ShardBatch& batch) { return static_cast<std::size_t>(batch.shard - first); };
  const auto critic_loss = [&](const learner::ShardBatch& batch) {
    std::vector<float>* its = errors.empty() ? nullptr : &errors[local(batch)];
    return td3_critic_loss(policy_, copies_, transitions_of(batch.columns), options_, sums[local(batch)], its);
  };
  learner::LearnerReport report =
      member_.learner.step(0, learner::LossFunction(std::cref(critic_loss)), 1.0, now.limits);
  if ((now.turn + 1) % options_.policy_every != 0) return report;
  const auto policy_loss = [&](const learner::ShardBatch& batch) {
    return td3_policy_loss(policy_, transitions_of(batch.columns), sums[local(batch)]);
  };
  const learner::LearnerReport its =
      member_.learner.step(0, learner::LossFunction(std::cref(policy_loss)), 1.0, now.limits);
  report.step.wait_seconds += its.step.wait_seconds;
  actor_target_.follow(options_.tau);
  critics_target_.follow(options_.tau);
  return report;
}

std::unique_ptr<Actor> Td3::make_explorer(const ActorOptions& options, std::int64_t rows, std::uint64_t run_seed,
                                          int group) {
  return make_actor(policy_, options, rows, run_seed, group);
}

model::NamedTensors Td3::targets() const {
  model::NamedTensors all = actor_target_.state();
  for (const auto& each : critics_target_.state()) all.push_back(each);
  return all;
}

void Td3::load_targets(const model::NamedTensors& saved) { model::copy_named(saved, targets()); }

std::string Td3::gradients_by() const { return "losses and gradients by tensor operations and autograd"; }

}  // namespace tandem::rl
