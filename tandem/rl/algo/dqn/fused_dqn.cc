#include "tandem/rl/algo/dqn/fused_dqn.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "tandem/rl/algo/off_policy/options_of_choice.h"

namespace tandem::rl {
std::string why_not_fused(const DqnOptions& options) {
  if (options.returns != DqnReturn::kMean) return "there are none for distributions of returns";
  return options.streams == DqnStreams::kDueling ? "there are none for two streams" : "";
}

FusedDqn::FusedDqn(ReturnNetwork& network, ReturnNetwork& target, std::int64_t rows, const DqnOptions& options,
                   InstructionSet set)
    : options_(options),
      features_(network.encoder().flat(), rows),
      next_features_(network.encoder().flat(), rows),
      network_({&network.net()}, {.max_rows = rows, .set = set, .compute = options.compute}),
      target_({&target.net()}, {.max_rows = rows, .passes = Passes::kForward, .set = set, .compute = options.compute}),
      actions_(network_.outputs()),
      next_(static_cast<std::size_t>(rows)),
      of_values_(static_cast<std::size_t>(rows * actions_)),
      best_(static_cast<std::size_t>(rows)) {}

// The network that learns judges the next steps first: its last forward() must be that of the rows themselves, since
// backward() follows it.
void FusedDqn::value_next(const TransitionRows& rows) {
  const std::int64_t count = rows.reward.size(0);
  const float* features = next_features_.of(rows.next_observation);
  const auto* mask = rows.next_action_mask.defined() ? rows.next_action_mask.const_data_ptr<std::uint8_t>() : nullptr;
  const auto choose = [&](const float* values) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::span<const float> its(values + i * actions_, static_cast<std::size_t>(actions_));
      // The first one where nothing is allowed, which no environment shows.
      best_[static_cast<std::size_t>(i)] =
          std::max<std::int64_t>(best_option(mask == nullptr ? nullptr : mask + i * actions_, its), 0);
    }
  };
  if (options_.target == DqnTarget::kDouble) choose(network_.forward({.first = features}, count));
  const float* later = target_.forward({.first = features}, count);
  if (options_.target == DqnTarget::kMax) choose(later);
  for (std::int64_t i = 0; i < count; ++i)
    next_[static_cast<std::size_t>(i)] = later[i * actions_ + best_[static_cast<std::size_t>(i)]];
}

// Derivatives are those of the loss times its number of rows.
learner::WrittenLoss FusedDqn::loss(const TransitionRows& rows, OffPolicySums& sums, std::vector<float>* errors) {
  const std::int64_t count = rows.reward.size(0);
  value_next(rows);
  const float* values = network_.forward({.first = features_.of(rows.observation)}, count);
  const auto* action = rows.action.const_data_ptr<std::int64_t>();
  const float* reward = rows.reward.const_data_ptr<float>();
  const float* discount = rows.discount.const_data_ptr<float>();
  const float* weight = rows.weight.const_data_ptr<float>();
  std::fill(of_values_.begin(), of_values_.end(), 0.0F);
  double loss = 0, value = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t place = i * actions_ + action[i];
    const float error = values[place] - (reward[i] + discount[i] * next_[static_cast<std::size_t>(i)]);
    const float size = std::abs(error);
    of_values_[static_cast<std::size_t>(place)] = weight[i] * std::clamp(error, -1.0F, 1.0F);
    loss += weight[i] * (size <= 1 ? 0.5F * error * error : size - 0.5F);
    value += values[place];
    if (errors != nullptr) errors->push_back(size);
  }
  (void)network_.backward(of_values_.data(), ParameterGradients::kOverwrite, InputGradient::kNone);
  const auto shard = static_cast<double>(count);
  sums.rows += shard;
  sums.value_loss += loss;
  sums.value += value;
  const auto mean = static_cast<float>(loss / shard);
  return {.loss = mean, .weight = shard, .parts = {{{"value_loss", mean}}}};
}

}  // namespace tandem::rl
