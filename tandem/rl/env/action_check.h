// rl/env/action_check.h: refuses actions outside the space before any environment moves.
//
// An index outside the space would read past a table, and a NaN would stay in a state for good. A fault that is found
// here still names the environment and the action. Implementations of EnvGroup call check_actions() first in step().
//
// Threads: free functions on values. They take no memory unless they throw, so they may run in every step.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "tandem/rl/env/env_group.h"

namespace tandem::rl {

/// Looks at the actions of `rows` environments. Discrete choices must be within their options, Box
/// elements finite; bounds of a Box are not checked, since environments clip. Throws EnvError naming the first bad one,
/// InvariantError when the array of the space's kind is missing.
void check_actions(const Spec& spec, std::size_t rows, const EnvActions& actions);

/// Looks at the action mask of one row: entries are 0 or 1, and each choice leaves at least one option. Throws EnvError
/// with the bare reason ("its action mask leaves no option for choice 1"); the caller adds environment and step.
void check_mask(const ActionSpace& space, std::span<const std::uint8_t> allowed);

}  // namespace tandem::rl
