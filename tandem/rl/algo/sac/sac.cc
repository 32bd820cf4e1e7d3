#include "tandem/rl/algo/sac/sac.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

namespace tandem::rl {
namespace {

// A module of the critics' shape; TargetNetwork gives it their values.
std::shared_ptr<ActionValues> copy_of_critics(SacPolicy& policy, const NetworkOptions& networks) {
  at::Generator unused = at::detail::createCPUGenerator(0);
  const auto count = static_cast<int>(policy.critics().networks().size());
  auto copy = std::make_shared<ActionValues>(policy.spec(), networks, count, unused);
  copy->to(policy.log_temperature().device());
  return copy;
}

}  // namespace

void Sac::set_optimizers(const SacOptions& options, learner::TeamOptions& team) {
  const double actor = options.learning_rate, critic = options.critic_learning_rate.value_or(actor);
  team.flat.groups = {{.name = "actor", .prefixes = {"actor", "log_temperature"}},
                      {.name = "critics", .prefixes = {"critics"}}};
  team.optimizer = {model::AdamOptions{.lr = actor, .eps = options.adam_eps},
                    model::AdamOptions{.lr = critic, .eps = options.adam_eps}};
}

Sac::Sac(learner::Member member, SacPolicy& policy, const NetworkOptions& networks, const SacOptions& options)
    : member_(std::move(member)),
      policy_(policy),
      target_critics_(copy_of_critics(policy, networks)),
      target_(member_.replica.parameters(), "critics", target_critics_),
      options_(options) {}

// The parts that a step does not concern get no gradient, so the optimizer leaves them and their moments alone.
learner::LearnerReport Sac::learn(const Turn& now, std::span<OffPolicySums> sums,
                                  std::span<std::vector<float>> errors) {
  const int first = member_.replica.placement().mine.begin;
  const auto local = [first](const learner::ShardBatch& batch) { return static_cast<std::size_t>(batch.shard - first); };
  const auto critic_loss = [&](const learner::ShardBatch& batch) {
    std::vector<float>* its = errors.empty() ? nullptr : &errors[local(batch)];
    return sac_critic_loss(policy_, *target_critics_, transitions_of(batch.columns), options_, sums[local(batch)], its);
  };
  learner::LearnerReport report =
      member_.learner.step(0, learner::LossFunction(std::cref(critic_loss)), 1.0, now.limits);
  if (now.turn % options_.policy_every == 0) {
    const auto policy_loss = [&](const learner::ShardBatch& batch) {
      return sac_policy_loss(policy_, transitions_of(batch.columns), options_, sums[local(batch)]);
    };
    const learner::LearnerReport its =
        member_.learner.step(0, learner::LossFunction(std::cref(policy_loss)), 1.0, now.limits);
    report.step.wait_seconds += its.step.wait_seconds;
  }
  if (now.turn % options_.target_every == 0) target_.follow(options_.tau);
  return report;
}

std::unique_ptr<Actor> Sac::make_explorer(const ActorOptions& options, std::int64_t rows, std::uint64_t run_seed,
                                          int group) {
  return make_actor(policy_, options, rows, run_seed, group);
}

std::string Sac::gradients_by() const { return "losses and gradients by tensor operations and autograd"; }

void Sac::append_figures(std::vector<std::pair<std::string, double>>& figures) const {
  figures.emplace_back("temperature", temperature_of(policy_, options_).item<double>());
}

}  // namespace tandem::rl
