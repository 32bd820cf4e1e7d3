#include "tandem/rl/algo/dqn/dqn.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/rl/algo/off_policy/agent_step.h"
#include "tandem/rl/algo/off_policy/options_of_choice.h"

namespace tandem::rl {
namespace {

// Explorers get observations in the host's memory, wherever the policy lies.
c10::Device device_of(const DqnPolicy& policy) { return policy.parameters().front().device(); }

}  // namespace

EpsilonGreedy::EpsilonGreedy(DqnPolicy& policy, const DqnOptions& options, const double& epsilon, Philox random,
                             std::int64_t rows, std::optional<InstructionSet> kernels)
    : policy_(policy),
      epsilon_(epsilon),
      is_noisy_(options.exploration == DqnExploration::kNoisy),
      random_(random),
      actions_(head_size(policy.spec().action)) {
  if (!kernels) return;
  network_.emplace(policy.network(), options,
                   ReturnPasses::Options{.max_rows = rows, .passes = Passes::kForward, .set = *kernels});
}

// The module is the definition. Noisy layers are drawn anew in each step, for all rows of it.
const float* EpsilonGreedy::values(const Observation& observation) {
  std::optional<ReturnNoise> noise;
  if (is_noisy_) noise = policy_.network().draw_noise(random_);
  if (network_) {
    if (noise) network_->draw(*noise);
    (void)network_->forward(observation);
    return network_->means();
  }
  const at::NoGradGuard no_grad;
  ReturnNetwork& network = policy_.network();
  const Observation there = to_device(observation, device_of(policy_));
  told_ = network.mean(network.forward(there, noise ? &*noise : nullptr)).to(at::kCPU).contiguous();
  return told_.const_data_ptr<float>();
}

// Every step draws the same numbers, whatever the values are.
void EpsilonGreedy::act(const Observation& observation, const at::Tensor& mask, const Decisions& out) {
  const float* value = values(observation);
  const std::int64_t rows = observation.front().size(0);
  for (std::int64_t row = 0; row < rows; ++row, value += actions_) {
    const std::span<const float> its(value, static_cast<std::size_t>(actions_));
    if (!std::ranges::all_of(its, [](float v) { return std::isfinite(v); }))
      throw RunError("the values of actions are not finite");
    const std::uint8_t* allowed = mask.defined() ? mask.const_data_ptr<std::uint8_t>() + row * actions_ : nullptr;
    const bool explores = random_.uniform_double() < epsilon_;
    const std::int64_t any = any_option(allowed, actions_, random_);
    const std::int64_t best = best_option(allowed, its);  // any_option() has found one that is allowed
    out.discrete[row] = explores ? any : best;
    out.log_prob[row] = 0;
    out.value[row] = value[best];
  }
}

void EpsilonGreedy::evaluate(const Observation& observation, const at::Tensor& /*state*/, float* value) {
  const at::NoGradGuard no_grad;
  const Observation there = to_device(observation, device_of(policy_));
  const at::Tensor values = policy_.forward(there).value.to(at::kCPU, at::kFloat).contiguous();
  std::copy_n(values.const_data_ptr<float>(), values.numel(), value);
}

std::vector<std::byte> EpsilonGreedy::save() const {
  const auto bytes = random_.save();
  return {bytes.begin(), bytes.end()};
}

void Dqn::set_optimizers(const DqnOptions& options, learner::TeamOptions& team) {
  team.optimizer = {model::AdamOptions{.lr = options.learning_rate, .eps = options.adam_eps}};
}

Dqn::Dqn(learner::Member member, DqnPolicy& policy, const NetworkOptions& networks, const DqnOptions& options,
         InstructionSet set)
    : member_(std::move(member)),
      policy_(policy),
      copy_(module_for_target<ReturnNetwork>(device_of(policy), policy.spec(), networks, options)),
      target_(member_.replica.parameters(), "q", copy_),
      options_(options),
      kernels_(choose_kernels(policy, options, set)),
      epsilon_(options.first_epsilon) {
  if (!kernels_.fused) return;
  const std::int64_t rows = options.batch_size / member_.replica.placement().shards;
  fused_ = std::make_unique<FusedDqn>(policy_.network(), *copy_, rows, options_, set);
}

learner::LearnerReport Dqn::learn(const Turn& now, std::span<OffPolicySums> sums,
                                  std::span<std::vector<float>> errors) {
  std::optional<DqnNoise> noise;
  if (options_.exploration == DqnExploration::kNoisy) noise = draw_noise(policy_.network(), now.seed);
  if (noise && fused_) fused_->draw(*noise);
  const learner::LearnerReport report = step_agent(
      member_, now, fused_.get(),
      [&](FusedDqn& fused, const TransitionRows& rows, std::size_t local) {
        return fused.loss(rows, sums[local], errors_of(errors, local));
      },
      [&](const TransitionRows& rows, std::size_t local) {
        return dqn_loss(policy_, *copy_, rows, options_, sums[local], errors_of(errors, local),
                        noise ? &*noise : nullptr);
      });
  if ((now.turn + 1) % options_.target_every == 0) target_.follow(options_.tau);
  return report;
}

std::unique_ptr<Actor> Dqn::make_explorer(const ActorOptions& options, std::int64_t rows, std::uint64_t run_seed,
                                          int group) {
  const std::uint64_t seed = derive_seed(run_seed, SeedPurpose::kAction, static_cast<std::uint64_t>(group));
  const auto kernels = kernels_.fused ? std::optional(options.instruction_set) : std::nullopt;
  return std::make_unique<EpsilonGreedy>(policy_, options_, epsilon_, Philox(seed), rows, kernels);
}

}  // namespace tandem::rl
