// rl/algo/dqn/return_fits.h: the loss of each form of returns, row by row, with its derivatives; by plain loops without
// autograd. dqn_loss.h is the definition.
//
// The slope of each loss with respect to the numbers that were said is written down by hand, and fused_dqn_test.cc
// compares it with autograd's. A fit looks at the numbers that the network tells of a row's action and at those that
// the target network tells of the next one. Sums of a row's loss run over its numbers in their order.
//
// Threads: single-thread. Memory is taken when one is made.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "tandem/rl/algo/dqn/dqn_options.h"
#include "tandem/rl/algo/dqn/softmax_rows.h"

namespace tandem::rl {

/// Rows to fit, [rows, numbers] and [rows].
struct ReturnRows {
  std::int64_t rows = 0;
  const float* said = nullptr;  // of the action that was taken
  const float* next = nullptr;  // of the best next action, by the target network
  const float* reward = nullptr;
  const float* discount = nullptr;
};

class ReturnFit {
 public:
  /// For up to `rows` rows. `support`: the values of a categorical distribution, or null. Throws ConfigError when this
  /// processor does not have `set`.
  ReturnFit(const DqnOptions& options, const float* support, std::int64_t rows, InstructionSet set);

  /// Fills loss(), error(), mean() and of_said() for the rows.
  void run(const ReturnRows& rows);

  /// [rows]: the loss; what priorities are made of; the mean of the return that was said.
  [[nodiscard]] const float* loss() const { return loss_.data(); }
  [[nodiscard]] const float* error() const { return error_.data(); }
  [[nodiscard]] const float* mean() const { return mean_.data(); }
  /// [rows, numbers]: the derivatives of a row's loss with respect to the numbers that were said.
  [[nodiscard]] const float* of_said() const { return of_said_.data(); }

 private:
  void fit_mean(const ReturnRows& rows);
  void fit_categorical(const ReturnRows& rows);
  void fit_quantiles(const ReturnRows& rows);
  void add_sample(float wanted);
  // Row `row` of next_shares_, moved by reward and discount and shared out between the fixed values: wanted_.
  void project(float reward, float discount, std::int64_t row);

  const DqnReturn returns_;
  const std::int64_t numbers_;
  const float* support_;
  std::vector<float> loss_, error_, mean_, of_said_;
  // A categorical distribution has, [rows, numbers], what was said, and what the next step has.
  std::optional<SoftmaxRows> softmax_;
  std::vector<float> logarithms_, shares_, next_shares_;
  // [numbers]: the projected distribution.
  std::vector<float> wanted_;
  // Quantiles have, [numbers] and what fills the last vector, those of a row, their middles, and sums over the samples.
  std::vector<float> said_, middle_, slope_, each_;
};

}  // namespace tandem::rl
