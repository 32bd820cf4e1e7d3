// sync/variable_registry.h: how replicas of a process find the shared variables that one of them made. Internal.
//
// Threads: all.
#pragma once
#include <memory>
#include <string>

#include "tandem/sync/variables/variable_service.h"

namespace tandem::sync {

/// A text that no other process has.
[[nodiscard]] std::string process_key();

/// Under which the variables are found in this process while they live.
[[nodiscard]] std::string enter_variables(const std::shared_ptr<VariableService>& variables);
/// Throws InvariantError when there are none.
[[nodiscard]] std::shared_ptr<VariableService> find_variables(const std::string& key);

}  // namespace tandem::sync
