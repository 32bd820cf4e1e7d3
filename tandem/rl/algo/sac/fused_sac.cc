#include "tandem/rl/algo/sac/fused_sac.h"

#include <algorithm>
#include <cmath>

#include "tandem/rl/algo/off_policy/critic_fit.h"
#include "tandem/rl/algo/sac/sac_loss.h"

namespace tandem::rl {
namespace {

// The temperature learns in the actor's step.
std::vector<at::Tensor> actor_parameters(SacPolicy& policy) {
  std::vector<at::Tensor> parameters = policy.actor().parameters();
  parameters.push_back(policy.log_temperature());
  return parameters;
}

}  // namespace

FusedSac::FusedSac(SacPolicy& policy, ActionValues& targets, std::int64_t rows, const SacOptions& options,
                   InstructionSet set)
    : policy_(policy),
      options_(options),
      target_entropy_(target_entropy_of(policy, options)),
      features_(policy.actor().encoder().flat(), rows),
      next_features_(policy.actor().encoder().flat(), rows),
      actor_({&policy.actor().net()}, {.max_rows = rows, .set = set, .compute = options.compute}),
      critics_(policy.critics().nets(), {.max_rows = rows,
                                         .second_features = action_elements(policy.spec().action),
                                         .set = set,
                                         .compute = options.compute}),
      targets_(targets.nets(), {.max_rows = rows,
                                .second_features = action_elements(policy.spec().action),
                                .passes = Passes::kForward,
                                .set = set,
                                .compute = options.compute}),
      draw_(action_elements(policy.spec().action), rows, {.low = kLeastLogStd, .high = kMostLogStd}, set),
      of_actor_(actor_parameters(policy)),
      of_critics_(policy.critics().parameters()),
      target_(static_cast<std::size_t>(rows)),
      of_log_prob_(static_cast<std::size_t>(rows)),
      of_values_(policy.critics().networks().size() * static_cast<std::size_t>(rows)) {}

// Derivatives are those of the loss times its number of rows.
learner::WrittenLoss FusedSac::critic_loss(const TransitionRows& rows, std::span<const std::size_t> chosen,
                                           OffPolicySums& sums, std::vector<float>* errors) {
  const std::int64_t count = rows.reward.size(0);
  const auto critics = static_cast<std::int64_t>(policy_.critics().networks().size());
  const auto temperature = static_cast<float>(temperature_of(policy_, options_).item<double>());
  const float* next = next_features_.of(rows.next_observation);
  draw_.forward(actor_.forward({.first = next}, count), rows.noise[0].const_data_ptr<float>(), count);
  const float* later = targets_.forward({.first = next, .second = draw_.action()}, count, chosen);
  const float* reward = rows.reward.const_data_ptr<float>();
  const float* discount = rows.discount.const_data_ptr<float>();
  for (std::int64_t i = 0; i < count; ++i) {
    const float least = later[least_place(later, std::ssize(chosen), count, i)];
    target_[static_cast<std::size_t>(i)] = reward[i] + discount[i] * (least - temperature * draw_.log_prob()[i]);
  }
  of_actor_.leave_alone();
  return fit_critics({.nets = critics_,
                      .count = critics,
                      .features = features_.of(rows.observation),
                      .target = target_.data(),
                      .factor = 0.5F,
                      .of_values = of_values_.data()},
                     rows, sums, errors);
}

// Only the critic with the least value counts in a row, or all of them count alike. Returns the sum over
// the rows of what the actor's action is worth.
double FusedSac::value_of_action(const float* values, std::int64_t critics, std::int64_t count) {
  double sum = 0;
  if (options_.actor_value == ActorValue::kMean) {
    std::fill(of_values_.begin(), of_values_.end(), -1.0F / static_cast<float>(critics));
    for (std::int64_t place = 0; place < critics * count; ++place) sum += values[place];
    return sum / static_cast<double>(critics);
  }
  std::fill(of_values_.begin(), of_values_.end(), 0.0F);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t least = least_place(values, critics, count, i);
    of_values_[static_cast<std::size_t>(least)] = -1;
    sum += values[least];
  }
  return sum;
}

// The critics' gradient with respect to the action goes back through the draw to the actor's head; their own parameters
// get none.
learner::WrittenLoss FusedSac::policy_loss(const TransitionRows& rows, OffPolicySums& sums) {
  const std::int64_t count = rows.reward.size(0);
  const auto critics = static_cast<std::int64_t>(policy_.critics().networks().size());
  const double temperature = temperature_of(policy_, options_).item<double>();
  const float* features = features_.of(rows.observation);
  draw_.forward(actor_.forward({.first = features}, count), rows.noise[1].const_data_ptr<float>(), count);
  const float* values = critics_.forward({.first = features, .second = draw_.action()}, count);
  double log_prob = 0;
  for (std::int64_t i = 0; i < count; ++i) log_prob += draw_.log_prob()[i];
  const double loss = temperature * log_prob - value_of_action(values, critics, count);
  // The loss has temperature * log_prob - value in each row.
  std::fill(of_log_prob_.begin(), of_log_prob_.end(), static_cast<float>(temperature));
  const float* of_action = critics_.backward(of_values_.data(), ParameterGradients::kLeave, InputGradient::kSecond);
  (void)actor_.backward(draw_.backward(of_action, of_log_prob_.data()), ParameterGradients::kOverwrite,
                        InputGradient::kNone);
  of_critics_.leave_alone();
  const auto weight = static_cast<double>(count);
  at::Tensor slope = policy_.log_temperature().mutable_grad();
  if (options_.fixed_temperature) {
    policy_.log_temperature().mutable_grad().reset();
  } else {
    *slope.data_ptr<float>() = static_cast<float>(-(log_prob + weight * target_entropy_));
  }
  sums.policy_rows += weight;
  sums.policy_loss += loss;
  sums.entropy -= log_prob;
  double total = loss / weight;
  if (!options_.fixed_temperature)
    total -= policy_.log_temperature().item<double>() * (log_prob / weight + target_entropy_);
  const auto mean = static_cast<float>(loss / weight);
  return {.loss = static_cast<float>(total),
          .weight = weight,
          .parts = {{{"policy_loss", mean}, {"entropy", static_cast<float>(-log_prob / weight)}}}};
}

}  // namespace tandem::rl
