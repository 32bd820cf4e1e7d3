// app/config/option_rules.h: what one option asks of another.
#pragma once
#include <string>
#include <vector>

#include "tandem/app/config/train_options.h"

namespace tandem::app {

/// Faults of options that are fine one by one but not together. `table` is bound to `options`. `replicas`: how many
/// the devices make. Rules about shards are left out while they are `auto`.
[[nodiscard]] std::vector<std::string> rule_faults(const TrainOptions& options, const OptionTable& table, int replicas);

}  // namespace tandem::app
