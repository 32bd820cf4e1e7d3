// app/config/strategy_options.h: the options of single strategies, in the table of all.
//
// Threads: single-thread.
#pragma once
#include "tandem/app/config/option_table.h"
#include "tandem/app/config/train_options.h"

namespace tandem::app {

/// `options` outlives the table.
void add_strategy_options(OptionTable& table, TrainOptions& options);

}  // namespace tandem::app
