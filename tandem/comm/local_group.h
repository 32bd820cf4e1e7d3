// comm/local_group.h: the group of a process's replicas, one thread each.
//
// Members read and write each other's memory in place. A collective is two waits: until all have posted their memory,
// and until all have done their part of the work (each sums an equal part of the elements and writes it to everybody).
// There is no thread besides the members'. CPU tensors are reduced by direct loads and stores, tensors on other devices
// by copies between the devices.
#pragma once
#include <memory>
#include <vector>

#include "tandem/comm/group.h"

namespace tandem::comm {

/// The members of a new group of `size` threads, by rank. They share its state; the last one to go frees it.
[[nodiscard]] std::vector<std::unique_ptr<Group>> make_local_group(int size);

}  // namespace tandem::comm
