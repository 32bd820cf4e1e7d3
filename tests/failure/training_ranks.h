// The ranks of a training that fails (failing_rank.cc), as children of the test.
//
// Threads: single-thread.
#pragma once
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "tests/support/child.h"

namespace tandem::failure_test {

/// Where the ranks run and meet.
struct Place {
  std::string master = "127.0.0.1";
  int port = 0;
  std::function<void(int rank)> enter = {};  // in the new process, before its program starts
};

/// Starts `ranks` of them with these arguments.
[[nodiscard]] std::deque<process_test::Child> start_ranks(int ranks, const Place& place,
                                                          const std::vector<std::string>& arguments);

/// Waits until all have ended.
[[nodiscard]] std::vector<process_test::Ended> wait_for(std::deque<process_test::Child>& ranks);

}  // namespace tandem::failure_test
