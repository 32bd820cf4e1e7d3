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

namespace tandem {

class Worker {
 public:
  /// The token is requested by request_stop() and by the destructor.
  using Body = std::function<void(const std::stop_token&)>;

  /// Starts a thread that runs `body`, which must return soon after a stop request. Debuggers and `top` show the first
  /// 15 bytes of `name`. Throws RunError when the system has no thread to give. Fault point: worker.start.
  Worker(std::string name, Body body);
  /// Requests a stop and waits for the body to return. A failure that no join() has rethrown is dropped.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

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
