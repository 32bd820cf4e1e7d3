// concurrency/worker_group.h: workers that live and fail together, such as the stages of a pipeline.
//
// The first failure stops all workers of the group, and so does a stop request to the parent token.
//
//   WorkerGroup stages(stop);
//   stages.start("load", load_all);
//   stages.start("learn", learn_all);
//   stages.join();   // rethrows the failure to report, if there is one
//
// Threads: request_stop() and token() may be called from any thread; the other members belong to the owner.
// Ownership: whatever the bodies refer to must outlive the group.
// Blocking: join() and the destructor wait for all bodies, without a limit.
#pragma once
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "tandem/concurrency/failures.h"
#include "tandem/concurrency/worker.h"

namespace tandem {

class WorkerGroup {
 public:
  /// A group without workers, which a stop request to `parent` stops.
  explicit WorkerGroup(const std::stop_token& parent = {});
  /// Requests a stop and joins, the youngest worker first.
  ~WorkerGroup();

  /// Starts a worker. Its body gets the token of the group. Throws RunError when the system gives no thread; the other
  /// workers then go on until the group is stopped.
  void start(const std::string& name, Worker::Body body);

  /// The group's own token: stopped by request_stop(), by the parent, and by the first failure.
  [[nodiscard]] std::stop_token token() const { return stop_.get_token(); }
  /// Asks all bodies to return, and does not wait for them.
  void request_stop() { stop_.request_stop(); }
  /// All failures so far, also those that join() does not rethrow. They are complete when join() has returned.
  [[nodiscard]] const Failures& failures() const { return failures_; }

  /// Waits for all bodies to return, and rethrows the failure to report. Requests no stop by itself.
  void join();

 private:
  // Passes a stop request of the parent on. A stop_callback needs a type that can be named as a member, which a
  // lambda's is not.
  struct Follow {
    std::stop_source* source;
    void operator()() const { source->request_stop(); }
  };

  std::stop_source stop_;
  std::stop_callback<Follow> on_parent_stop_;
  Failures failures_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace tandem
