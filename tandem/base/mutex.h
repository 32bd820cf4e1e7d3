// base/mutex.h: Mutex, MutexLock and CondVar. They are the only locks of Tandem, and carry the annotations of clang's
// thread safety analysis.
//
//   Mutex mutex_;
//   CondVar changed_;
//   int value_ TANDEM_GUARDED_BY(mutex_) = 0;
//   ...
//   MutexLock lock(mutex_);
//   changed_.wait(mutex_, stop, [this]() TANDEM_REQUIRES(mutex_) { return value_ > 0; });
//
// Every wait takes a stop token, a deadline, or both, so no wait is without an end.
//
// Source of the annotations: clang's "Thread Safety Analysis".
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <stop_token>

#include "tandem/base/clock.h"

// Names for the analysis (-Wthread-safety); other compilers see nothing. They have a prefix because this header is
// installed beside those of other libraries.
#if defined(__clang__)
#define TANDEM_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define TANDEM_THREAD_ANNOTATION(x)
#endif

// GUARDED_BY marks a member that may be touched only under its mutex, REQUIRES a function whose caller holds the
// mutex, and EXCLUDES one whose caller must not hold it.
#define TANDEM_CAPABILITY(name) TANDEM_THREAD_ANNOTATION(capability(name))
#define TANDEM_SCOPED_CAPABILITY TANDEM_THREAD_ANNOTATION(scoped_lockable)
#define TANDEM_GUARDED_BY(mutex) TANDEM_THREAD_ANNOTATION(guarded_by(mutex))
#define TANDEM_REQUIRES(...) TANDEM_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define TANDEM_EXCLUDES(...) TANDEM_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define TANDEM_ACQUIRE(...) TANDEM_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define TANDEM_RELEASE(...) TANDEM_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define TANDEM_TRY_ACQUIRE(...) TANDEM_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define TANDEM_NO_THREAD_SAFETY_ANALYSIS TANDEM_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace tandem {

/// A std::mutex that the analysis knows. Threads: all.
class TANDEM_CAPABILITY("mutex") Mutex {
 public:
  /// lock() blocks without a limit; it is not recursive. Code takes a MutexLock instead where it can.
  void lock() TANDEM_ACQUIRE() { mutex_.lock(); }
  void unlock() TANDEM_RELEASE() { mutex_.unlock(); }
  [[nodiscard]] bool try_lock() TANDEM_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  std::mutex mutex_;
};

/// Locks the mutex in its constructor and unlocks it in its destructor.
class TANDEM_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TANDEM_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() TANDEM_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// Waits for a condition that a mutex guards. Threads: all. Destroy it only when nobody waits on it any more.
class CondVar {
 public:
  /// Blocks until `ready()` is true, a stop is requested, or the deadline passes. Returns the last value of `ready()`,
  /// so a condition that holds wins over a stop request. `ready` is called with the mutex held, and the caller holds
  /// the mutex again when this returns.
  template <typename Ready>
  bool wait(Mutex& mutex, const std::stop_token& stop, const Deadline& deadline, Ready ready) TANDEM_REQUIRES(mutex)
      TANDEM_NO_THREAD_SAFETY_ANALYSIS {  // the analysis cannot see that `mutex` is the one that `ready` requires
    if (ready()) return true;
    const Counted counted(waiters_);
    return deadline.is_infinite() ? condition_.wait(mutex, stop, ready)
                                  : condition_.wait_until(mutex, stop, deadline.at(), ready);
  }
  /// Waits as above; only a stop request ends the wait early.
  template <typename Ready>
  bool wait(Mutex& mutex, const std::stop_token& stop, Ready ready) TANDEM_REQUIRES(mutex) {
    return wait(mutex, stop, Deadline::infinite(), ready);
  }
  /// Waits as above; only the deadline ends the wait early.
  template <typename Ready>
  bool wait(Mutex& mutex, const Deadline& deadline, Ready ready) TANDEM_REQUIRES(mutex) {
    return wait(mutex, std::stop_token(), deadline, ready);
  }

  /// Both may be called with or without the mutex, after the condition was changed under it.
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

  /// The number of threads that are blocked in wait() now. A thread counts itself while it holds the mutex. So an
  /// observer that sees the count and then takes the mutex knows that the thread really sleeps. For tests, and for
  /// reports of what a stuck run waits for.
  [[nodiscard]] std::size_t waiters() const { return waiters_.load(std::memory_order_relaxed); }

 private:
  // Counts a thread as waiting for as long as the object exists, also when `ready` throws.
  struct Counted {
    explicit Counted(std::atomic<std::size_t>& count) : count_(count) {
      count_.fetch_add(1, std::memory_order_relaxed);
    }
    ~Counted() { count_.fetch_sub(1, std::memory_order_relaxed); }
    std::atomic<std::size_t>& count_;
  };

  std::condition_variable_any condition_;  // the one that accepts a stop token
  std::atomic<std::size_t> waiters_{0};
};

}  // namespace tandem
