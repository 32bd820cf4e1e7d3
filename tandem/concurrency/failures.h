// concurrency/failures.h: what went wrong in a group of threads, and which of it to report.
//
// When one member fails it aborts the group, and the others then fail with GroupAborted, perhaps before the first one's
// exception has travelled up its stack. So the failure to report is the earliest that is not a GroupAborted.
//
// Threads: all.
#pragma once
#include <exception>
#include <string>
#include <vector>

#include "tandem/base/mutex.h"

namespace tandem {

class Failures {
 public:
  struct Failure {
    std::string member;  // "replica 1"
    std::exception_ptr error;
  };

  void add(std::string member, std::exception_ptr error);
  void clear();

  [[nodiscard]] bool empty() const;
  /// All of them, in the order of their arrival.
  [[nodiscard]] std::vector<Failure> all() const;
  /// Rethrows the one to report, as it was thrown; does nothing when there is none.
  void rethrow() const;

 private:
  mutable Mutex mutex_;
  std::vector<Failure> failures_ TANDEM_GUARDED_BY(mutex_);
};

/// The message of any exception, for lists of failures.
[[nodiscard]] std::string message_of(const std::exception_ptr& error);

}  // namespace tandem
