// app/commands/simulated_rank.h: a rank of DD-PPO without environments and model: real groups, boards, rules and waits;
// steps and learning are slept.
//
// Threads: the calling one. Blocking: waits for the other ranks.
#pragma once
#include "tandem/app/simulate/scale_model.h"
#include "tandem/comm/world.h"

namespace tandem::app {

/// This rank's part of a simulation of all policies, one after the other. Collective; the same on all ranks. Throws as
/// comm::Group does. Sleeps are of 4 ms or more, so that many ranks fit on few cores; a rank posts its progress and
/// decides whether to end when it wakes.
/// `updates`: how many are measured of each policy; two more before them are not. Every wait for others ends after two
/// minutes at the latest. The rates are environment steps a second of all ranks together.
[[nodiscard]] ScalePoint simulate_rank(comm::World& world, const SimulatedWork& work, int updates);

}  // namespace tandem::app
