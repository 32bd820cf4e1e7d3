// bench/defaults/tasks/tasks.h: all tasks of the study, as a list for templates and macros.
#pragma once
#include "choices.h"
#include "flight.h"
#include "plants.h"
#include "reachers.h"

#define TANDEM_DEFAULT_TASKS                                                                                        \
  tandem::defaults::PointReach, tandem::defaults::ArmReach, tandem::defaults::PlanarQuad,                           \
      tandem::defaults::SoftLander, tandem::defaults::Servo, tandem::defaults::Heater, tandem::defaults::Reservoir, \
      tandem::defaults::Cruise, tandem::defaults::ContextBandit, tandem::defaults::KeyDoor,                         \
      tandem::defaults::SwitchBoard, tandem::defaults::Crossing
