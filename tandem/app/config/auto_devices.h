// app/config/auto_devices.h: what `devices: cpu:auto` becomes, and the shards beside it.
//
// The shards decide the numbers of a run, and the devices only who computes them. So the shards are chosen first, and
// the machine has no say in them: `shards: auto` beside `cpu:auto` follows from the other options alone. The devices
// then are as many replicas as the shards allow and the machine has cores for. A run has the same bits on any machine.
//
// Threads: values.
#pragma once
#include <string>
#include <vector>

#include "tandem/app/config/configuration.h"

namespace tandem::app {

inline constexpr const char* kAutoDevices = "cpu:auto";

/// Where to add faults and notes, a sentence each.
struct Findings {
  std::vector<std::string>&faults, &notes;
};

/// Resolves `devices: cpu:auto`, and `shards` beside it if they are `auto`; does nothing where other devices are named.
/// `table` is bound to `options`.
void resolve_devices(TrainOptions& options, OptionTable& table, const Surroundings& surroundings, Findings findings);

}  // namespace tandem::app
