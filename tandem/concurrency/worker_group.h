// concurrency/worker_group.h: workers that live and fail together, such as the stages of a pipeline.
//
// The first failure stops all of them. A stop request to the parent token does so too.
//
// Threads: failed(), request_stop() and token() may be called from any thread; the rest belongs to the owner.
// What the bodies refer to must outlive the group.
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
  explicit WorkerGroup(const std::stop_token& parent = {});
  /// Requests a stop and joins, the youngest worker first.
  ~WorkerGroup();

  /// Starts a worker. Its body gets the token of the group.
  void start(const std::string& name, Worker::Body body);

  [[nodiscard]] std::stop_token token() const { return stop_.get_token(); }
  void request_stop() { stop_.request_stop(); }
  [[nodiscard]] const Failures& failures() const { return failures_; }

  /// Waits for all bodies to return, and rethrows the failure to report. Requests no stop by itself.
  void join();

 private:
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
