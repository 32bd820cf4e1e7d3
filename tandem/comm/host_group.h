// comm/host_group.h: the group of the ranks of one host, a process each, through shared memory.
//
// allocate() gives memory that all ranks have mapped: tensors in it are reduced in place, each rank summing an equal
// part of the elements and writing it to everybody. Others are copied there and back. Allocating waits for nobody and
// need not be the same on all ranks; the memory lives as long as the tensor, beyond the group.
//
// A rank that dies or leaves makes all others' operations throw PeerLost at once; one that is stopped is named at the
// deadline. Messages say what every rank did last. After any throw, a new group needs new tensors: a stopped rank
// that wakes up may still write to the old ones, and to nothing else.
//
// Besides the member's thread there is one that sleeps until a peer is gone. A child that a rank forks without exec
// hides that rank's death from the others as long as it lives.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tandem/comm/group.h"

namespace tandem::comm {

struct HostGroupOptions {
  int rank = 0, size = 1;  // among the ranks of this host
  std::string key;         // names this group among all of the network namespace: run, generation, host; up to 90 bytes
  Limits limits;           // until all ranks must have come
  std::vector<int> names = {};  // what messages call the ranks: theirs in the run; empty: as they are counted here
};

/// Waits until all ranks have come. Throws ConfigError for impossible options, DeadlineExceeded naming the ranks that
/// are missing, and RunError when ranks do not fit together or the system refuses.
[[nodiscard]] std::unique_ptr<Group> make_host_group(const HostGroupOptions& options);

}  // namespace tandem::comm
