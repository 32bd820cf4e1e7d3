// comm/host_group.h: the group of the ranks of one host, each a process, through shared memory (shm/member.h).
//
// allocate() gives memory that all ranks have mapped. Tensors in it are reduced in place: each rank sums an equal part
// of the elements and writes the sum to all ranks' tensors. Other tensors are copied into shared memory and back.
// Ranks need not allocate the same tensors, or in the same order.
//
// When a rank dies or leaves, all others' operations throw PeerLost at once; a rank that is stopped is named at the
// deadline. Messages say what every rank did last. After any throw, a new group needs new tensors: a stopped rank
// that continues may still write to the old ones, but to nothing else.
//
// Threads: as group.h; besides the member's thread there is one that sleeps until a peer is gone. A child process that
// a rank forks without exec hides that rank's death from the others as long as the child lives.
#pragma once
#include <memory>

#include "tandem/comm/group.h"
#include "tandem/shm/meeting.h"

namespace tandem::comm {

/// Waits until all ranks have come. Apart from `rank` and `limits`, all ranks of the host give the same options. Throws
/// ConfigError for impossible options, DeadlineExceeded, which names the missing ranks, and RunError when ranks
/// disagree about the group or the system refuses memory or sockets.
[[nodiscard]] std::unique_ptr<Group> make_host_group(const shm::MeetingOptions& options);

}  // namespace tandem::comm
