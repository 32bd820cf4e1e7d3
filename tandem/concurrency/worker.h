// concurrency/worker.h: a named thread that is always joined and whose failure is kept. All threads of Tandem are
// Workers.
//
//   Worker loader("loader", [&](const std::stop_token& stop) {
//     while (!stop.stop_requested()) load_next(stop);
//   });
//   loader.join();   // rethrows the failure of the body
//
// Threads: request_stop(), finished() and token() may be called from any thread; the other members belong to the owner.
// Ownership: whatever the body refers to must outlive the Worker, so a Worker is the last member of its class.
// Blocking: join() and the destructor wait for the body, without a limit.
#pragma once
#include <atomic>
#include <exception>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tandem/base/mutex.h"

namespace tandem {

/// Collects the failures of a group of threads, and chooses the one to report.
///
/// A member that fails aborts the group. The others then fail with GroupAborted, perhaps before the first member's
/// exception has travelled up its stack. So the failure to report is the earliest one that is not a GroupAborted.
///
///   catch (...) { failures.add("replica 1", std::current_exception()); }   // in each thread
///   failures.rethrow();                                                    // in the owner, when all have ended
///
/// Threads: all. Nothing blocks.
class Failures {
 public:
  /// An exception, and the member that threw it.
  struct Failure {
    std::string member;  // "replica 1"
    std::exception_ptr error;
  };

  /// Adds the failure of `member`, a name for messages. May be called by several threads at once; the order of the
  /// calls decides which failure is the earliest.
  void add(std::string member, std::exception_ptr error) {
    const MutexLock lock(mutex_);
    failures_.push_back({std::move(member), std::move(error)});
  }
  /// Forgets all failures, for the next round of the group.
  void clear() {
    const MutexLock lock(mutex_);
    failures_.clear();
  }

  [[nodiscard]] bool empty() const { return all().empty(); }
  /// All failures, in the order of their arrival.
  [[nodiscard]] std::vector<Failure> all() const {
    const MutexLock lock(mutex_);
    return failures_;
  }
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

class Worker {
 public:
  /// The token is requested by request_stop() and by the destructor.
  using Body = std::function<void(const std::stop_token&)>;

  /// Starts a thread that runs `body`, which must return soon after a stop request. Debuggers and `top` show the first
  /// 15 bytes of `name`. Throws RunError when the system has no thread to give. Fault point: worker.start.
  Worker(std::string name, Body body);
  /// Requests a stop and waits for the body to return. A failure that no join() has rethrown is dropped.
  ~Worker();

  /// Asks the body to return. Does not wait.
  void request_stop() noexcept { thread_.request_stop(); }
  /// The token that the body was given.
  [[nodiscard]] std::stop_token token() const { return thread_.get_stop_token(); }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Whether the body has returned or thrown. A thread that has finished still has to be joined.
  [[nodiscard]] bool finished() const { return finished_.load(std::memory_order_acquire); }

  /// Waits for the body to return and rethrows its exception. Requests no stop, so the caller ends the body's input
  /// first. May be called again, with the same outcome.
  void join();

 private:
  // thread_ comes last: it is joined before the members that its body writes are gone.
  const std::string name_;
  std::exception_ptr failure_;  // written by the thread, read after it was joined
  std::atomic<bool> finished_{false};
  std::jthread thread_;
};

/// Gives the calling thread a name; only the first 15 bytes are kept.
void set_thread_name(const std::string& name);

}  // namespace tandem
