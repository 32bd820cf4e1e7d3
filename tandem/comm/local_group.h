// comm/local_group.h: the group of a process's replicas, one thread each.
//
// Members read and write each other's memory in place. A collective has two waits: until all members have posted their
// memory, and until all have done their part of the work. In an all-reduce each member sums an equal part of the
// elements and writes the sum to all members' tensors. CPU tensors are reduced by direct loads and stores, tensors on
// other devices by copies between the devices.
//
// Threads: as group.h; the group has no threads of its own. Blocking and errors: as group.h. An error of one member
// aborts the group, so that the others' waits end.
#pragma once
#include <memory>
#include <vector>

#include "tandem/comm/group.h"

namespace tandem::comm {

/// The members of a new group of `size` threads, by rank. They share its state; the last one to go frees it.
[[nodiscard]] std::vector<std::unique_ptr<Group>> make_local_group(int size);

}  // namespace tandem::comm
