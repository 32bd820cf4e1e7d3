// shm/meeting.h: how the ranks of a host find each other and come to share memory.
//
//   1. Rank 0 makes the region and listens at an abstract Unix socket, whose name is made of the key.
//   2. Every other rank connects, says who it is, and hands over the others' end of its lifeline
//   (shm/lifeline_watch.h).
//   3. When all ranks are there, each gets the region's memfd and the lifelines of all.
// No name, file or process stays behind.
//
// Threads: any, once for each rank. Blocking: until all ranks have come, or until `limits`.
// Errors: DeadlineExceeded that names the missing ranks; GroupAborted; RunError when a rank is there twice, when ranks
// disagree about the size, or when a rank ends meanwhile; ConfigError for options that cannot be.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tandem/concurrency/limits.h"
#include "tandem/shm/region.h"

namespace tandem::shm {

struct MeetingOptions {
  int rank = 0, size = 1;
  std::string key;  // 1 to 90 bytes, the same on all ranks and of no other group in this network namespace
  Limits limits;
  std::vector<int> names = {};  // the ranks' names in messages, which are their ranks in the run; empty: 0, 1, ...
};

/// Holds everything that a rank needs to be a member. It is moved into a Member, which then owns the lifelines and
/// shares the region.
struct Meeting {
  int rank = 0;
  std::shared_ptr<Region> region;
  Descriptor own_lifeline;            // this rank's own end of its lifeline
  std::vector<Descriptor> lifelines;  // the others' ends of all lifelines, by rank; this rank's is not open
  std::vector<int> names;             // by rank, for messages
};

/// Meets the other ranks of the group. Rank 0 serves the others on its own thread meanwhile; no thread is started.
[[nodiscard]] Meeting meet(const MeetingOptions& options);

}  // namespace tandem::shm
