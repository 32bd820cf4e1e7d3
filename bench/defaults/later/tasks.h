// bench/defaults/later/tasks.h: the tasks that nobody tuned for, as a list for templates and macros.
#pragma once
#include "frog.h"
#include "machines.h"
#include "rover.h"
#include "services.h"

#define TANDEM_LATER_TASKS                                                                     \
  tandem::defaults::GantryCrane, tandem::defaults::HomeEnergy, tandem::defaults::RoverPursuit, \
      tandem::defaults::Elevator, tandem::defaults::RoadFrog, tandem::defaults::StirredReactor
