#include "tandem/rl/algo/td3/fused_td3.h"

#include <algorithm>
#include <cmath>

#include "tandem/rl/algo/off_policy/critic_fit.h"

namespace tandem::rl {

FusedTd3::FusedTd3(Td3Policy& policy, const Td3Targets& targets, std::int64_t rows, const Td3Options& options,
                   InstructionSet set)
    : options_(options),
      size_(action_elements(policy.spec().action)),
      critic_count_(std::ssize(policy.critics().networks())),
      features_(policy.actor().encoder().flat(), rows),
      next_features_(policy.actor().encoder().flat(), rows),
      actor_({&policy.actor().net()}, {.max_rows = rows, .set = set, .compute = options.compute}),
      critics_(policy.critics().nets(),
               {.max_rows = rows, .second_features = size_, .set = set, .compute = options.compute}),
      target_actor_({&targets.actor->net()},
                    {.max_rows = rows, .passes = Passes::kForward, .set = set, .compute = options.compute}),
      target_critics_(targets.critics->nets(), {.max_rows = rows,
                                                .second_features = size_,
                                                .passes = Passes::kForward,
                                                .set = set,
                                                .compute = options.compute}),
      of_actor_(policy.actor().parameters()),
      of_critics_(policy.critics().parameters()),
      action_(static_cast<std::size_t>(rows * size_)),
      target_(static_cast<std::size_t>(rows)),
      of_values_(static_cast<std::size_t>(critic_count_ * rows)) {}

// Derivatives are those of the loss times its number of rows.
learner::WrittenLoss FusedTd3::critic_loss(const TransitionRows& rows, std::span<const std::size_t> chosen,
                                           OffPolicySums& sums, std::vector<float>* errors) {
  const std::int64_t count = rows.reward.size(0);
  const float* next = next_features_.of(rows.next_observation);
  const float* head = target_actor_.forward({.first = next}, count);
  const float* noise = rows.noise[0].const_data_ptr<float>();
  const auto most = static_cast<float>(options_.target_noise_clip), scale = static_cast<float>(options_.target_noise);
  for (std::int64_t i = 0; i < count * size_; ++i)
    action_[static_cast<std::size_t>(i)] =
        std::clamp(std::tanh(head[i]) + std::clamp(noise[i] * scale, -most, most), -1.0F, 1.0F);
  const float* later = target_critics_.forward({.first = next, .second = action_.data()}, count, chosen);
  const float* reward = rows.reward.const_data_ptr<float>();
  const float* discount = rows.discount.const_data_ptr<float>();
  for (std::int64_t i = 0; i < count; ++i) {
    const float least = later[least_place(later, std::ssize(chosen), count, i)];
    target_[static_cast<std::size_t>(i)] = reward[i] + discount[i] * least;
  }
  of_actor_.leave_alone();
  return fit_critics({.nets = critics_,
                      .count = critic_count_,
                      .features = features_.of(rows.observation),
                      .target = target_.data(),
                      .of_values = of_values_.data()},
                     rows, sums, errors);
}

// The first critic's gradient with respect to the action goes back through the tanh to the actor's head.
learner::WrittenLoss FusedTd3::policy_loss(const TransitionRows& rows, OffPolicySums& sums) {
  const std::int64_t count = rows.reward.size(0);
  const float* features = features_.of(rows.observation);
  const float* head = actor_.forward({.first = features}, count);
  for (std::int64_t i = 0; i < count * size_; ++i) action_[static_cast<std::size_t>(i)] = std::tanh(head[i]);
  const float* values = critics_.forward({.first = features, .second = action_.data()}, count);
  double loss = 0;
  for (std::int64_t i = 0; i < count; ++i) loss -= values[i];
  // The other critics are asked, too, since an ensemble is one; nothing of theirs counts.
  std::fill(of_values_.begin(), of_values_.end(), 0.0F);
  std::fill_n(of_values_.begin(), count, -1.0F);
  const float* of_action = critics_.backward(of_values_.data(), ParameterGradients::kLeave, InputGradient::kSecond);
  for (std::int64_t i = 0; i < count * size_; ++i) {
    float& its = action_[static_cast<std::size_t>(i)];  // tanh' = 1 - tanh^2
    its = of_action[i] * (1 - its * its);
  }
  (void)actor_.backward(action_.data(), ParameterGradients::kOverwrite, InputGradient::kNone);
  of_critics_.leave_alone();
  const auto weight = static_cast<double>(count);
  sums.policy_rows += weight;
  sums.policy_loss += loss;
  const auto mean = static_cast<float>(loss / weight);
  return {.loss = mean, .weight = weight, .parts = {{{"policy_loss", mean}}}};
}

}  // namespace tandem::rl
