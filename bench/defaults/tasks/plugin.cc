// bench/defaults/tasks/plugin.cc: the tasks of the study as a plugin: no LibTorch, and no preset knows them.
#include <tandem/rl/env/plugin.h>

#include "tasks.h"

TANDEM_ENV_PLUGIN(TANDEM_DEFAULT_TASKS);
