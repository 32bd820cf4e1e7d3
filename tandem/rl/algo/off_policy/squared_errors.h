// rl/algo/off_policy/squared_errors.h: the squared errors of critics and their derivatives, for losses by kernels.
//
// Threads: any; plain loops over the caller's memory.
//
// Sums run over the rows in their order, in float64, so that they do not depend on how a batch is cut into calls.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "tandem/learner/loaded_batch.h"
#include "tandem/rl/algo/off_policy/off_policy_agent.h"

namespace tandem::rl {

/// Both networks' arrays are row-major, a network's rows side by side, as MlpEnsemble has them.
/// The critics' values of rows, and those that they are to have.
struct CriticRows {
  const float* values = nullptr;  // [critics, rows]
  const float* target = nullptr;  // [rows]
  const float* weight = nullptr;  // [rows]
  std::int64_t rows = 0, critics = 0;
  float factor = 1;  // of the squared error
};

/// Sums over the rows: of the loss, over all critics, and of the values, their mean over the critics.
struct CriticSums {
  double loss = 0, value = 0;
};

/// Writes the derivatives of the sum over rows of weight * factor * (value - target)^2, [critics, rows], and appends
/// |value - target|, the mean over the critics, to `errors` where that is not null.
inline CriticSums squared_errors(const CriticRows& its, float* of_values, std::vector<float>* errors) {
  CriticSums sums;
  for (std::int64_t i = 0; i < its.rows; ++i) {
    double size = 0, value_sum = 0;
    for (std::int64_t k = 0; k < its.critics; ++k) {
      const float value = its.values[k * its.rows + i], error = value - its.target[i];
      of_values[k * its.rows + i] = 2 * its.factor * its.weight[i] * error;
      sums.loss += its.factor * its.weight[i] * error * error;
      value_sum += value;
      size += std::abs(error);
    }
    sums.value += value_sum / static_cast<double>(its.critics);
    if (errors != nullptr) errors->push_back(static_cast<float>(size / static_cast<double>(its.critics)));
  }
  return sums;
}

/// Adds a critics' loss over `rows` rows to the sums, and tells it to the learner: as a float, so that a loss beyond
/// its range is said to be one.
inline learner::WrittenLoss written(const CriticSums& its, double rows, OffPolicySums& sums) {
  sums.rows += rows;
  sums.value_loss += its.loss;
  sums.value += its.value;
  const auto mean = static_cast<float>(its.loss / rows);
  return {.loss = mean, .weight = rows, .parts = {{{"value_loss", mean}}}};
}

}  // namespace tandem::rl
