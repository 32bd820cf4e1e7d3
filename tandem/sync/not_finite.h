// sync/not_finite.h: the error of a step whose gradients are not finite.
#pragma once
#include "tandem/base/error.h"

namespace tandem::sync {

/// A mean of gradients, or its norm, is not finite; the parameters are those of the step before. Whoever has the batch
/// may add what it was computed from.
struct GradientNotFinite : RunError {
  using RunError::RunError;
};

}  // namespace tandem::sync
