// shm/meeting.h: how the ranks of a host find each other and come to share memory.
//
// Rank 0 makes the region and listens at an abstract Unix socket; every other rank connects, says who it is and hands
// over its lifeline (shm/lifeline_watch.h); when all are there, each gets the region's memfd and all lifelines.
//
// Threads: any, once per rank. Blocking: until all ranks have come, or `limits`; throws DeadlineExceeded naming the
// missing ones, GroupAborted, or RunError when a rank is there twice, ranks disagree about the size, or one ends
// meanwhile. No name, file or process stays behind.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tandem/concurrency/limits.h"
#include "tandem/shm/region.h"

namespace tandem::shm {

struct MeetingOptions {
  int rank = 0, size = 1;
  std::string key;  // at most 90 bytes; the same on all ranks, used by no other group in this network namespace
  Limits limits;
  std::vector<int> names = {};  // what messages call the ranks: theirs in the run; empty: 0, 1, ...
};

struct Meeting {
  int rank = 0;
  std::shared_ptr<Region> region;
  Descriptor own_lifeline;            // this rank's own end
  std::vector<Descriptor> lifelines;  // the others' ends of all ranks, by rank; this rank's is not open
  std::vector<int> names;             // by rank, for messages
};

[[nodiscard]] Meeting meet(const MeetingOptions& options);

}  // namespace tandem::shm
