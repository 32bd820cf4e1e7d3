#include "tandem/concurrency/worker.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>

#include "tandem/base/error.h"
#include "tandem/base/fault_point.h"
#include "tandem/base/text.h"

namespace tandem {
namespace {

// Whether the member failed only because another one had failed before.
bool is_consequence(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const GroupAborted&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

void Failures::rethrow() const {
  const std::vector<Failure> failures = all();
  if (failures.empty()) return;
  const auto cause =
      std::find_if(failures.begin(), failures.end(), [](const Failure& f) { return !is_consequence(f.error); });
  std::rethrow_exception(cause != failures.end() ? cause->error : failures.front().error);
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

// The system takes 15 bytes and a zero, and refuses longer names.
void set_thread_name(const std::string& name) { pthread_setname_np(pthread_self(), name.substr(0, 15).c_str()); }

Worker::Worker(std::string name, Body body) : name_(std::move(name)) {
  fault_point("worker.start");  // as if the system had no thread to give
  try {
    thread_ = std::jthread([this, body = std::move(body)](const std::stop_token& stop) {
      // name_ was constructed before the thread, and is not changed afterwards.
      set_thread_name(name_);
      try {
        body(stop);
      } catch (...) {
        failure_ = std::current_exception();
      }
      // The store publishes failure_ to a thread that sees it.
      finished_.store(true, std::memory_order_release);
    });
  } catch (const std::system_error& error) {
    throw RunError(concat("cannot start the thread '", name_, "': ", error.what(),
                          "; raise the limit on threads (ulimit -u) or use fewer replicas"));
  }
}

Worker::~Worker() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void Worker::join() {
  if (thread_.joinable()) thread_.join();
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace tandem
