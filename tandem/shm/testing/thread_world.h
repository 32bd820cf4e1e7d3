// shm/testing/thread_world.h: the ranks of a host group as threads that share one mapping, so that ThreadSanitizer sees
// all of it.
#pragma once
#include <unistd.h>

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tandem/concurrency/cores.h"
#include "tandem/shm/lifeline_watch.h"
#include "tandem/shm/meeting.h"

namespace tandem::shm {

inline std::vector<Meeting> meet_in_process(int size) {
  const std::shared_ptr<Region> region = Region::create(size);
  std::vector<Meeting> meetings(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    Lifeline lifeline = make_lifeline();
    region->control().rank(rank).process = rank + 1000;
    ::sched_getaffinity(0, sizeof(cpu_set_t), &region->control().rank(rank).cores);
    region->control().rank(rank).quota = usable_cores().quota;
    Meeting& mine = meetings[static_cast<std::size_t>(rank)];
    mine.rank = rank;
    for (int each = 0; each < size; ++each) mine.names.push_back(each);
    mine.region = region;
    mine.own_lifeline = std::move(lifeline.own);
    for (Meeting& other : meetings)
      other.lifelines.push_back(&other == &mine ? Descriptor() : Descriptor(::dup(lifeline.others.get())));
  }
  return meetings;
}

/// Runs `work` as each rank, on a thread of its own; what() of every rank's exception, or "" for one that returned.
inline std::vector<std::string> run_threads(int size, const std::function<void(Meeting)>& work) {
  std::vector<Meeting> meetings = meet_in_process(size);
  std::vector<std::string> outcomes(static_cast<std::size_t>(size));
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < meetings.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        work(std::move(meetings[rank]));
      } catch (const std::exception& error) {
        outcomes[rank] = error.what();
      }
    });
  }
  threads.clear();
  return outcomes;
}

}  // namespace tandem::shm
