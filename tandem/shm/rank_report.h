// shm/rank_report.h: what every rank of a host group did last, for error messages.
#pragma once
#include <span>
#include <string>

#include "tandem/shm/control_block.h"

namespace tandem::shm {

/// One line a rank, each after a line break: its process, when it last posted or finished a collective, how many it
/// finished, and the last few that it posted; each called as `names` says. Never blocks, whatever the ranks do
/// meanwhile.
[[nodiscard]] std::string describe_ranks(ControlBlock& control, std::span<const int> names);

}  // namespace tandem::shm
