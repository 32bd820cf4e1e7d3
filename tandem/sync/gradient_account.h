// sync/gradient_account.h: counts of the gradients of all replicas of a run: how many were offered, applied and
// dropped, and how many each step was made of.
//
// For each replica, offered = applied + dropped + in flight holds at any time. Applied and dropped gradients never
// become anything else; one in flight may become either, or stays in flight when the process that had it dies.
//
// Plain values.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace tandem::sync {

/// Counts of one replica's gradients.
struct GradientTotals {
  std::int64_t offered = 0, applied = 0, dropped = 0;
  [[nodiscard]] std::int64_t accepted() const { return offered - dropped; }
  /// Gradients that were accepted for a step that was not made yet, or never will be.
  [[nodiscard]] std::int64_t in_flight() const { return offered - applied - dropped; }
};

/// Least, sum and most, over some steps, of a figure that each step has.
struct OverSteps {
  double least = 0, sum = 0, most = 0;
};

/// The effective batches of some steps. Parts of it are added up with add(), in any order.
struct StepSizes {
  std::int64_t steps = 0;
  OverSteps gradients;  // that a step was made of
  OverSteps rows;       // that these were sums over: their weight

  void add(const StepSizes& more) {
    if (more.steps == 0) return;
    const bool is_first = steps == 0;
    steps += more.steps;
    const auto widen = [is_first](OverSteps& all, const OverSteps& its) {
      all.least = is_first ? its.least : std::min(all.least, its.least);
      all.sum += its.sum;
      all.most = is_first ? its.most : std::max(all.most, its.most);
    };
    widen(gradients, more.gradients);
    widen(rows, more.rows);
  }
  [[nodiscard]] double mean_of(OverSteps StepSizes::*figure) const {
    return steps == 0 ? 0 : (this->*figure).sum / static_cast<double>(steps);
  }
};

struct GradientAccount {
  std::vector<GradientTotals> replicas;  // of the run, in order, since its variables were loaded
  StepSizes sizes;                       // of the steps since the account was taken last
};

}  // namespace tandem::sync
