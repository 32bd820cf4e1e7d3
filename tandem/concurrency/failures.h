// concurrency/failures.h: collects the failures of a group of threads, and chooses the one to report.
//
// A member that fails aborts the group. The others then fail with GroupAborted, perhaps before the first member's
// exception has travelled up its stack. So the failure to report is the earliest one that is not a GroupAborted.
//
//   catch (...) { failures.add("replica 1", std::current_exception()); }   // in each thread
//   failures.rethrow();                                                    // in the owner, when all have ended
//
// Threads: all. Nothing blocks.
#pragma once
#include <exception>
#include <string>
#include <vector>

#include "tandem/base/mutex.h"

namespace tandem {

class Failures {
 public:
  /// An exception, and the member that threw it.
  struct Failure {
    std::string member;  // "replica 1"
    std::exception_ptr error;
  };

  /// Adds the failure of `member`, a name for messages. May be called by several threads at once; the order of the
  /// calls decides which failure is the earliest.
  void add(std::string member, std::exception_ptr error);
  /// Forgets all failures, for the next round of the group.
  void clear();

  [[nodiscard]] bool empty() const;
  /// All failures, in the order of their arrival.
  [[nodiscard]] std::vector<Failure> all() const;
  /// Rethrows the failure to report as it was thrown. Does nothing when there is none. When all failures are a
  /// GroupAborted, the first of them is thrown.
  void rethrow() const;

 private:
  mutable Mutex mutex_;
  std::vector<Failure> failures_ TANDEM_GUARDED_BY(mutex_);
};

/// Returns the message of any exception, for lists of failures. An exception that is no std::exception gets a fixed
/// sentence.
[[nodiscard]] std::string message_of(const std::exception_ptr& error);

}  // namespace tandem
