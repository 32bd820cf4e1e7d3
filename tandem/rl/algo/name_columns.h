// rl/algo/name_columns.h: how messages about a batch of an algorithm call its columns and states.
#pragma once
#include <cstddef>
#include <string>

#include "tandem/learner/batch_names.h"
#include "tandem/rl/env/spec.h"

namespace tandem::rl {

/// Observations by their leaves; what is learned of them and of rewards has its remedy. `name`: as the algorithms call
/// them ("observation", "reward", ...), `nth`: of the leaf.
[[nodiscard]] learner::ColumnName name_column(const Spec& spec, const std::string& name, std::size_t nth);

}  // namespace tandem::rl
