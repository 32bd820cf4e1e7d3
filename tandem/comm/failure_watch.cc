#include "tandem/comm/failure_watch.h"

#include <chrono>
#include <optional>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/poll_until.h"

namespace tandem::comm {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{250};

}  // namespace

FailureWatch::FailureWatch(Find find, const std::stop_token& stop)
    : callers_(stop, [this] { either_.request_stop(); }),
      worker_("failure-watch", [this, find = std::move(find)](const std::stop_token& ends) { look(find, ends); }) {}

void FailureWatch::look(const Find& find, const std::stop_token& stop) {
  std::string why;
  int failed = -1;
  try {
    for (; why.empty(); pause(kBetweenLooks, {.stop = stop})) {
      if (stop.stop_requested()) return;
      const std::optional<FirstFailure> first = find();
      if (!first) continue;
      failed = first->rank;
      why = concat("rank ", first->rank, " failed while the ranks met: ", first->why);
    }
  } catch (const RunError& error) {
    why = error.what();
  }
  {
    const MutexLock lock(mutex_);
    failed_ = failed;
    why_ = why;
  }
  either_.request_stop();
}

void FailureWatch::rethrow() const {
  const MutexLock lock(mutex_);
  if (failed_ >= 0) throw PeerLost(failed_, why_);
  if (!why_.empty()) throw RunError(why_);
}

}  // namespace tandem::comm
