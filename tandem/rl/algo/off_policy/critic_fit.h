// rl/algo/off_policy/critic_fit.h: what losses by kernels have alike that fit several critics to one target.
//
// Arrays of critics are [critics, rows], a critic's rows side by side, as MlpEnsemble has them.
//
// Sums run over the rows in their order, in float64, so that they do not depend on how a batch is cut into calls.
//
// Threads: single-thread, the replica's; plain loops over the caller's memory.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "tandem/learner/loaded_batch.h"
#include "tandem/rl/algo/off_policy/off_policy_agent.h"
#include "tandem/rl/algo/off_policy/transitions.h"
#include "tandem/rl/policy/kernels/mlp_ensemble.h"

namespace tandem::rl {

/// The place in `values` of what the critic says of row `row` that says the least; of equal ones the first critic's.
[[nodiscard]] inline std::int64_t least_place(const float* values, std::int64_t critics, std::int64_t rows,
                                              std::int64_t row) {
  std::int64_t least = row;
  for (std::int64_t place = row + rows; place < critics * rows; place += rows) {
    if (values[place] < values[least]) least = place;
  }
  return least;
}

/// Critics, what they see of rows, and the memory that fitting them needs. Made for one call; nothing is owned.
struct CriticFit {
  MlpEnsemble<float>& nets;
  std::int64_t count = 0;           // of the critics
  const float* features = nullptr;  // [rows, features]
  const float* target = nullptr;    // [rows]: what they are to say
  float factor = 1;                 // of the squared error
  float* of_values = nullptr;       // [count, rows]: overwritten
};

/// The loss is the sum over critics of the mean over rows of weight * factor * (Q(s, a) - target)^2. Writes the
/// gradients of the critics' parameters, times the number of rows, adds to `sums`, and appends |Q - target|, the mean
/// over the critics, to `errors` where that is not null.
[[nodiscard]] inline learner::WrittenLoss fit_critics(const CriticFit& fit, const TransitionRows& rows,
                                                      OffPolicySums& sums, std::vector<float>* errors) {
  const std::int64_t count = rows.reward.size(0);
  const float* weight = rows.weight.const_data_ptr<float>();
  const float* values = fit.nets.forward({.first = fit.features, .second = rows.action.const_data_ptr<float>()}, count);
  const auto critics = static_cast<double>(fit.count), all = static_cast<double>(count);
  double loss = 0, value_mean = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    double size = 0, value_sum = 0;
    for (std::int64_t place = i; place < fit.count * count; place += count) {
      const float value = values[place], error = value - fit.target[i];
      fit.of_values[place] = 2 * fit.factor * weight[i] * error;
      loss += fit.factor * weight[i] * error * error;
      value_sum += value;
      size += std::abs(error);
    }
    value_mean += value_sum / critics;
    if (errors != nullptr) errors->push_back(static_cast<float>(size / critics));
  }
  (void)fit.nets.backward(fit.of_values, ParameterGradients::kOverwrite, InputGradient::kNone);
  sums.rows += all;
  sums.value_loss += loss;
  sums.value += value_mean;
  // As a float, so that a loss beyond its range is said to be one.
  const auto mean = static_cast<float>(loss / all);
  return {.loss = mean, .weight = all, .parts = {{{"value_loss", mean}}}};
}

}  // namespace tandem::rl
