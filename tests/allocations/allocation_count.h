// tests/allocations/allocation_count.h: counts calls of operator new by who makes them: Tandem's code, or a library.
//
// A program that links allocation_count.cc has the counting operators in the place of all others, also for LibTorch's
// calls. A call counts as Tandem's when the innermost frame that says anything is in the program itself: those of the
// C++ library are passed over, and so are templates of others that the program has a copy of, since LibTorch may run
// that copy. So a vector that Tandem's code lets grow is its own, and one that an operation of LibTorch makes is not.
//
// Threads: all. One count at a time.
#pragma once
#include <cstdint>
#include <string>

namespace tandem::testing {

class AllocationCount {
 public:
  /// Begins to count, on all threads of the process.
  AllocationCount();
  /// Ends it, if stop() has not.
  ~AllocationCount();
  AllocationCount(const AllocationCount&) = delete;
  AllocationCount& operator=(const AllocationCount&) = delete;

  /// Ends it: the numbers stay as they are.
  void stop();
  [[nodiscard]] std::int64_t ours() const;    // calls of Tandem's code
  [[nodiscard]] std::int64_t others() const;  // of LibTorch's and whoever else's
  /// Where Tandem's code allocated, the most frequent first: for the message of a test that fails. Frames are addresses
  /// within the program, for addr2line.
  [[nodiscard]] std::string where() const;
};

}  // namespace tandem::testing
