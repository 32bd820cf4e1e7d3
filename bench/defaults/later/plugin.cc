// bench/defaults/later/plugin.cc: the tasks that were written after the study, as a plugin of their own.
#include <tandem/rl/env/plugin.h>

#include "tasks.h"

TANDEM_ENV_PLUGIN(TANDEM_LATER_TASKS);
