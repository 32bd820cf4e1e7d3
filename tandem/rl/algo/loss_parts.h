// rl/algo/loss_parts.h: the losses of an algorithm as the parts of a learner's loss, for its message when it is not
// finite.
#pragma once
#include "tandem/learner/loaded_batch.h"
#include "tandem/rl/algo/training_run.h"

namespace tandem::rl {

/// `sums`: over `rows` rows, or means and 1. `Real`: the dtype of the loss, in which a part may be infinite. Costs four
/// divisions and allocates nothing.
template <typename Real = double>
[[nodiscard]] inline learner::LossParts loss_parts(const Losses& sums, double rows) {
  return {{{"policy_loss", static_cast<Real>(sums.policy_loss / rows)},
           {"value_loss", static_cast<Real>(sums.value_loss / rows)},
           {"entropy", static_cast<Real>(sums.entropy / rows)},
           {"approx_kl", static_cast<Real>(sums.approx_kl / rows)}}};
}

}  // namespace tandem::rl
