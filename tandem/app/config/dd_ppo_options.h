// app/config/dd_ppo_options.h: the options that DD-PPO has besides PPO's, in the table of all.
//
// Threads: single-thread.
#pragma once
#include "tandem/app/config/option_table.h"
#include "tandem/app/config/train_options.h"

namespace tandem::app {

/// `dd_ppo` outlives the table.
void add_dd_ppo_options(OptionTable& table, DdPpoSettings& dd_ppo);

}  // namespace tandem::app
