#include "tandem/rl/algo/ppo/fused_ppo.h"

#include <algorithm>
#include <cmath>

namespace tandem::rl {
namespace {

// The numbers that all rows of a minibatch share.
struct Coefficients {
  double clip, value, value_clip, kl;  // value_clip < 0: none
  double mean, scale;                  // of advantages
};

// The policy's part of one row: adds its numbers and returns the derivative of the loss with respect to log pi(a|s).
double surrogate(double log_prob, double old_log_prob, double raw_advantage, const Coefficients& c, PpoSums& sums) {
  const double log_ratio = log_prob - old_log_prob, ratio = std::exp(log_ratio);
  const double advantage = (raw_advantage - c.mean) * c.scale;
  const double clipped = std::clamp(ratio, 1 - c.clip, 1 + c.clip);
  const double plain = advantage * ratio, limited = advantage * clipped;
  sums.policy_loss -= std::min(plain, limited);
  sums.approx_kl += ratio - 1 - log_ratio;
  sums.clip_fraction += std::abs(ratio - 1) > c.clip ? 1 : 0;
  // Where the clipped term is the smaller one, the ratio does not count.
  const double clipped_slope = limited < plain ? 0.0 : -advantage * ratio;
  return c.kl > 0 ? clipped_slope + c.kl * (ratio - 1) : clipped_slope;
}

// The value's part of one row: adds the loss and returns its derivative.
double value_part(double value, double old_value, double target, const Coefficients& c, PpoSums& sums) {
  const double error = value - target, plain = error * error, change = value - old_value;
  if (c.value_clip >= 0 && std::abs(change) > c.value_clip) {
    const double near = old_value + std::clamp(change, -c.value_clip, c.value_clip);
    const double limited = (near - target) * (near - target);
    sums.value_loss += std::max(plain, limited);
    if (limited > plain) return 0;
  } else {
    sums.value_loss += plain;
  }
  return 2 * error * c.value;
}

}  // namespace

// The sums run over the rows in their order. Derivatives are those of the loss times its number of rows: gradients of
// shards can then be added, and are divided by all rows at the end.
template <typename Real>
learner::WrittenLoss FusedPpo<Real>::run(const learner::ShardRows& rows, const PpoOptions& options,
                                         const PpoMinibatch& minibatch, PpoSums& sums) {
  if (rows.rows == 0) return {};  // of uneven fragments
  take_rows(rows.columns, rows.states, columns_);
  const PpoRows& columns = columns_;
  const Real* old_log_prob = memory_of<Real>(columns.log_prob, "log_prob");
  const Real* old_value = memory_of<Real>(columns.value, "value");
  const Real* advantage = memory_of<Real>(columns.advantage, "advantage");
  const Real* value_target = memory_of<Real>(columns.value_target, "value_target");
  const Coefficients c{.clip = minibatch.clip_range,
                       .value = options.value_coef,
                       .value_clip = options.clip_range_value.value_or(-1.0),
                       .kl = options.kl_coef,
                       .mean = minibatch.advantage_mean,
                       .scale = minibatch.advantage_scale};
  PpoSums mine;
  mine.rows = static_cast<double>(rows.rows);
  block_.begin(columns);
  block_.differentiate(
      rows.rows, [&rows](std::int64_t i) { return rows.row(i); },
      [&](std::int64_t row, const BlockSample& now) {
        mine.entropy += now.entropy;
        return BlockSlopes{.log_prob = surrogate(now.log_prob, old_log_prob[row], advantage[row], c, mine),
                           .entropy = -options.entropy_coef,
                           .value = value_part(now.value, old_value[row], value_target[row], c, mine)};
      });
  sums.add(mine);
  double loss = mine.policy_loss + options.value_coef * mine.value_loss - options.entropy_coef * mine.entropy;
  if (options.kl_coef > 0) loss += options.kl_coef * mine.approx_kl;
  // As a Real, so that a loss beyond its range is said to be one, and of which shard.
  return {.loss = static_cast<Real>(loss / mine.rows), .weight = mine.rows};
}

template class FusedPpo<float>;
template class FusedPpo<double>;

}  // namespace tandem::rl
