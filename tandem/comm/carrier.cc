#include "tandem/comm/carrier.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::comm {
namespace {

using Phase = Layers::Phase;

// Bounds the sums between the leaders that are under way at once.
constexpr std::uint64_t kMostAtOnce = 64;
// How long the thread may take to fail after the deadline: longer than it gives other members to answer.
constexpr std::chrono::seconds kGivesUp{5};
constexpr std::chrono::milliseconds kExpireAgain{50};

}  // namespace

Carrier::Carrier(Layers& layers)
    : layers_(layers), worker_("carrier", [this](const std::stop_token& stop) { carry_all(stop); }) {}

Carrier::~Carrier() {
  bool is_under_way = false;
  {
    const MutexLock lock(mutex_);
    is_under_way = done_ < started_ && !failure_;
  }
  if (is_under_way) layers_.abort("it left the group before its collectives had ended");
}

// --- the member's thread ---

std::uint64_t Carrier::start(const at::Tensor& flat) {
  Started started{flat, nullptr};
  if (!flat.is_cpu()) {
    const c10::impl::VirtualGuardImpl device(flat.device().type());
    started.ready = std::make_unique<c10::Event>(flat.device().type());
    started.ready->record(device.getStream(flat.device()));
  }
  std::uint64_t ticket = 0;
  {
    const MutexLock lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    under_way_.push_back(std::move(started));
    ticket = started_++;
  }
  changed_.notify_all();
  return ticket;
}

bool Carrier::all_waited() const {
  const MutexLock lock(mutex_);
  return waited_ == started_;
}

// The carrier's thread waits in the groups without a deadline. So when the member's deadline has passed, this expires
// the wait that the thread is in, again and again, until the thread has failed with an error that names the missing
// member.
void Carrier::wait(std::uint64_t ticket, const Limits& limits) {
  {
    const MutexLock lock(mutex_);
    TANDEM_CHECK(ticket == waited_ && ticket < started_, "collectives are waited for in the order of their start");
  }
  const WaitOutcome outcome = await_done(ticket, limits.stop, limits.deadline);
  if (outcome == WaitOutcome::kReady) return;
  if (outcome == WaitOutcome::kStopped) layers_.abort(concat("all_reduce #", ticket, ": it was asked to stop"));
  const Deadline verdict = Deadline::after(kGivesUp);
  while (!verdict.expired()) {
    if (outcome == WaitOutcome::kDeadline) layers_.expire();
    if (await_done(ticket, {}, Deadline::after(kExpireAgain)) == WaitOutcome::kReady) return;
  }
  layers_.abort(concat("all_reduce #", ticket, ": the deadline has passed"));
  throw DeadlineExceeded(concat("all_reduce #", ticket, ": the deadline has passed, and the thread that carries it on ",
                                "was in no wait that could be ended"));
}

WaitOutcome Carrier::await_done(std::uint64_t ticket, const std::stop_token& stop, const Deadline& deadline) {
  const MutexLock lock(mutex_);
  const auto over = [&]() TANDEM_REQUIRES(mutex_) { return done_ > ticket || failure_; };
  if (!changed_.wait(mutex_, stop, deadline, over))
    return stop.stop_requested() ? WaitOutcome::kStopped : WaitOutcome::kDeadline;
  if (done_ <= ticket) std::rethrow_exception(failure_);
  ++waited_;
  return WaitOutcome::kReady;
}

// --- the carrying thread ---

void Carrier::carry_all(const std::stop_token& stop) {
  const at::NoGradGuard no_grad;
  try {
    while (!stop.stop_requested()) {
      const bool has_first = !carried_.empty();
      if (has_first) {
        layers_.between({}, [&](Group&, const Limits& within) { carried_.front().between->wait(within); });
      } else if (!await_started(summed_, stop)) {
        break;
      }
      if (!sum_started(has_first ? Phase::kFromLeader : Phase::kInside, stop)) break;
      if (has_first) hand_round_first();
    }
  } catch (...) {
    const MutexLock lock(mutex_);
    failure_ = std::current_exception();
  }
  changed_.notify_all();
}

// Sums inside what the leader has started by now. This cannot deadlock: the other members have started the same, or
// will start them without waiting for a result that they have not got, since the leader had not got that result either.
// Returns false when the thread is to end.
bool Carrier::sum_started(Phase phase, const std::stop_token& stop) {
  std::uint64_t end = summed_;
  if (layers_.leads()) {
    const MutexLock lock(mutex_);
    end = std::min(started_, done_ + kMostAtOnce);
  }
  const at::Tensor said = at::full({1}, static_cast<std::int64_t>(end), at::kLong);
  const Limits inside = layers_.asking(Phase::kInside);
  const auto hear = [&](Group& inner, const Limits& within) { inner.broadcast(said, 0, within); };
  phase == Phase::kInside ? layers_.inside(inside, hear) : layers_.from_leader({}, hear);
  for (end = static_cast<std::uint64_t>(said.item<std::int64_t>()); summed_ < end; ++summed_) {
    const auto flat = await_started(summed_, stop);
    if (!flat) return false;
    layers_.inside(inside, [&](Group& inner, const Limits& within) { inner.start_all_reduce(*flat).wait(within); });
    carried_.push_back({*flat, {}});
    layers_.between({}, [&](Group& outer, const Limits&) { carried_.back().between = outer.start_all_reduce(*flat); });
  }
  return true;
}

void Carrier::hand_round_first() {
  layers_.from_leader({},
                      [&](Group& inner, const Limits& within) { inner.broadcast(carried_.front().flat, 0, within); });
  carried_.pop_front();
  {
    const MutexLock lock(mutex_);
    under_way_.pop_front();
    ++done_;
  }
  changed_.notify_all();
}

// Waits until the member has started `ticket` and a device has written its tensor. Returns nothing when the thread is
// to end.
std::optional<at::Tensor> Carrier::await_started(std::uint64_t ticket, const std::stop_token& stop) {
  Started* started = nullptr;
  {
    const MutexLock lock(mutex_);
    if (!changed_.wait(mutex_, stop, [&]() TANDEM_REQUIRES(mutex_) { return started_ > ticket; })) return std::nullopt;
    started = &under_way_[ticket - done_];
  }
  if (started->ready) started->ready->synchronize();
  return started->flat;
}

}  // namespace tandem::comm
