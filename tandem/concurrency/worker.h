// concurrency/worker.h: a named thread that is always joined and whose failure is kept. All threads of Tandem are
// Workers.
//
// Threads: request_stop(), finished() and token() may be called from any thread; the rest belongs to the owner.
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
  using Body = std::function<void(const std::stop_token&)>;

  /// Starts a thread that runs `body`, which must return soon after a stop request. Debuggers and `top` show the first
  /// 15 bytes of `name`. Throws RunError when the system has no thread to give. Fault point: worker.start.
  Worker(std::string name, Body body);
  /// Requests a stop and waits for the body to return. A failure that no join() asked for is dropped.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void request_stop() noexcept { thread_.request_stop(); }
  [[nodiscard]] std::stop_token token() const { return thread_.get_stop_token(); }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Whether the body has returned or thrown.
  [[nodiscard]] bool finished() const { return finished_.load(std::memory_order_acquire); }

  /// Waits for the body to return and rethrows what it threw. Requests no stop: end the body's input first.
  /// May be called again, with the same outcome.
  void join();

 private:
  const std::string name_;
  std::exception_ptr failure_;  // written by the thread, read after it was joined
  std::atomic<bool> finished_{false};
  std::jthread thread_;
};

/// Gives the calling thread a name; only the first 15 bytes are kept.
void set_thread_name(const std::string& name);

}  // namespace tandem
