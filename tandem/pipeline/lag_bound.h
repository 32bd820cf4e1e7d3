// pipeline/lag_bound.h: how old a batch may be when it is learned from.
//
// Without LibTorch and threads: the program's configuration asks as well.
#pragma once
#include <cstdint>

namespace tandem::pipeline {

/// How a bound on policy lag is kept.
enum class BeyondLag {
  kWait,  // rollout workers begin a batch only when it cannot become too old
  kDrop,  // batches that are too old are not learned from
};

/// The lag of a batch is measured at its first pass: learner steps made by then, less those that its policy had.
struct LagBound {
  std::int64_t steps = 0;  // most learner steps between a batch's policy and the first pass over it
  BeyondLag then = BeyondLag::kWait;
};

}  // namespace tandem::pipeline
