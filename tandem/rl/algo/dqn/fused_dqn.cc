#include "tandem/rl/algo/dqn/fused_dqn.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <span>

#include "tandem/rl/algo/off_policy/options_of_choice.h"

namespace tandem::rl {

FusedDqn::FusedDqn(ReturnNetwork& network, ReturnNetwork& target, std::int64_t rows, const DqnOptions& options,
                   InstructionSet set)
    : options_(options),
      numbers_(options.numbers()),
      network_(network, options, {.max_rows = rows, .set = set, .compute = options.compute}),
      target_(target, options, {.max_rows = rows, .passes = Passes::kForward, .set = set, .compute = options.compute}),
      actions_(network_.actions()),
      fit_(options, network.support().defined() ? network.support().const_data_ptr<float>() : nullptr, rows, set),
      next_(static_cast<std::size_t>(rows * numbers_)),
      said_(static_cast<std::size_t>(rows * numbers_)),
      of_returns_(static_cast<std::size_t>(rows * actions_ * numbers_)),
      best_(static_cast<std::size_t>(rows)) {}

void FusedDqn::draw(const DqnNoise& noise) {
  network_.draw(noise.own);
  target_.draw(noise.target);
}

// The network that learns judges the next steps first: its last forward() must be that of the rows themselves, since
// backward() follows it.
void FusedDqn::value_next(const TransitionRows& rows) {
  const std::int64_t count = rows.reward.size(0);
  const auto* mask = rows.next_action_mask.defined() ? rows.next_action_mask.const_data_ptr<std::uint8_t>() : nullptr;
  const auto choose = [&](const float* values) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::span<const float> its(values + i * actions_, static_cast<std::size_t>(actions_));
      // The first one where nothing is allowed, which no environment shows.
      best_[static_cast<std::size_t>(i)] =
          std::max<std::int64_t>(best_option(mask == nullptr ? nullptr : mask + i * actions_, its), 0);
    }
  };
  if (options_.target == DqnTarget::kDouble) {
    (void)network_.forward(rows.next_observation);
    choose(network_.means());
  }
  const float* later = target_.forward(rows.next_observation);
  if (options_.target == DqnTarget::kMax) choose(target_.means());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t pair = i * actions_ + best_[static_cast<std::size_t>(i)];
    std::copy_n(later + pair * numbers_, numbers_, next_.data() + i * numbers_);
  }
}

// Derivatives are those of the loss times its number of rows.
learner::WrittenLoss FusedDqn::loss(const TransitionRows& rows, OffPolicySums& sums, std::vector<float>* errors) {
  const std::int64_t count = rows.reward.size(0);
  network_.refresh();
  target_.refresh();
  value_next(rows);
  const float* told = network_.forward(rows.observation);
  const auto* action = rows.action.const_data_ptr<std::int64_t>();
  const float* weight = rows.weight.const_data_ptr<float>();
  for (std::int64_t i = 0; i < count; ++i)
    std::copy_n(told + (i * actions_ + action[i]) * numbers_, numbers_, said_.data() + i * numbers_);
  fit_.run({.rows = count,
            .said = said_.data(),
            .next = next_.data(),
            .reward = rows.reward.const_data_ptr<float>(),
            .discount = rows.discount.const_data_ptr<float>()});
  std::fill(of_returns_.begin(), of_returns_.end(), 0.0F);
  double loss = 0, value = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float* slope = fit_.of_said() + i * numbers_;
    float* to = of_returns_.data() + (i * actions_ + action[i]) * numbers_;
    for (std::int64_t n = 0; n < numbers_; ++n) to[n] = weight[i] * slope[n];
    loss += weight[i] * fit_.loss()[i];
    value += fit_.mean()[i];
    if (errors != nullptr) errors->push_back(fit_.error()[i]);
  }
  network_.backward(of_returns_.data());
  const auto shard = static_cast<double>(count);
  sums.rows += shard;
  sums.value_loss += loss;
  sums.value += value;
  const auto mean = static_cast<float>(loss / shard);
  return {.loss = mean, .weight = shard, .parts = {{{"value_loss", mean}}}};
}

}  // namespace tandem::rl
