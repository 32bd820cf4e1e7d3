#include "tandem/concurrency/worker_group.h"

#include <utility>

namespace tandem {

WorkerGroup::WorkerGroup(const std::stop_token& parent) : on_parent_stop_(parent, Follow{&stop_}) {}

WorkerGroup::~WorkerGroup() {
  request_stop();
  while (!workers_.empty()) workers_.pop_back();  // the youngest first, since it may use what older ones serve
}

// The failure is recorded before the stop is requested, so that the GroupAborted of other workers come after their
// cause.
void WorkerGroup::start(const std::string& name, Worker::Body body) {
  workers_.push_back(std::make_unique<Worker>(name, [this, name, body = std::move(body)](const std::stop_token&) {
    try {
      body(token());
    } catch (...) {
      failures_.add(name, std::current_exception());
      request_stop();
    }
  }));
}

void WorkerGroup::join() {
  for (const auto& worker : workers_) worker->join();
  failures_.rethrow();
}

}  // namespace tandem
