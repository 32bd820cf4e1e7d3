// sync/model_description.h: a model as text, to compare the models of all replicas before training starts.
#pragma once
#include <string>
#include <vector>

#include "tandem/sync/replica.h"

namespace tandem::sync {

/// A line for each tensor of the replica's state: name, dtype and shape, in order.
[[nodiscard]] std::string describe_model(Replica& replica);

/// Throws ConfigError unless all descriptions (by replica) are equal; names the first line that differs on each
/// replica.
void require_same_model(const std::vector<std::string>& descriptions);

}  // namespace tandem::sync
