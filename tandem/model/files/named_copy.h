// model/named_copy.h: writes saved tensors back into the live ones of the same names.
#pragma once
#include "tandem/model/state_hash.h"

namespace tandem::model {

/// Copies every tensor of `saved` into the one of `live` with its name. Throws CheckpointError listing everything that
/// is missing on either side or differs in shape or dtype; `live` is then unchanged.
void copy_named(const NamedTensors& saved, const NamedTensors& live);

}  // namespace tandem::model
