#include "tandem/comm/layers.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"

namespace tandem::comm {
namespace {

constexpr int kMostNamed = 8;
// Bounds the sums between the leaders that are under way at once.
constexpr std::uint64_t kMostAtOnce = 64;
// How long the thread may take to fail after the deadline: longer than it gives other members to answer.
constexpr std::chrono::seconds kGivesUp{5};
constexpr std::chrono::milliseconds kExpireAgain{50};

std::string ranks(int begin, int end) {
  return end - begin == 1 ? concat("rank ", begin) : concat("ranks ", begin, " to ", end - 1);
}

}  // namespace

int InnerSizes::part_of(int rank) const {
  return static_cast<int>(std::upper_bound(begins_.begin(), begins_.end(), rank) - begins_.begin()) - 1;
}

std::string InnerSizes::describe(int part) const {
  if (begins_.empty()) return "while the groups met, within one: ";
  return concat("within the group of ", ranks(begin(part), begin(part + 1)), ", counted from 0 here: ");
}

std::string InnerSizes::describe_all() const {
  if (begins_.empty()) return "while the groups met: ";
  std::string text = "between the groups of ";
  for (int part = 0; part < std::min(parts(), kMostNamed); ++part)
    text += concat(part == 0 ? "" : "; ", ranks(begin(part), begin(part + 1)));
  return concat(text, parts() > kMostNamed ? "; and so on" : "", ", counted from 0 here: ");
}

Layers::Layers(std::unique_ptr<Group> inner, std::shared_ptr<Group> outer, int layers_outside, Names names)
    : names_(names), inner_(std::move(inner)), outer_(std::move(outer)), layers_outside_(layers_outside) {
  TANDEM_CHECK(!leads() || outer_ != nullptr, "the leader of an inner group needs its place in the outer one");
  register_listeners();
}

Layers::~Layers() {
  inner_->on_question({});
  if (leads()) outer_->on_question({});
}

void Layers::set_sizes(InnerSizes sizes, int mine) {
  sizes_ = std::move(sizes);
  mine_ = mine;
  register_listeners();
}

// Called twice, since the prefixes of messages change when the sizes are known. Only the leader listens to the outer
// group: other members of its process may hold the same one. The earlier listeners end first, so that no failure is
// told with the earlier prefixes.
void Layers::register_listeners() {
  inner_closing_ = {};
  inner_closing_ = inner_->on_close([this, before = prefix_of(Phase::kInside)](const std::string& why) {
    if (outer_ != nullptr) outer_->abort(before + why);
    listeners_.close(before + why);
  });
  inner_->on_question([this] { on_question_inside(); });
  if (!leads()) return;
  outer_->on_question([this] { on_question_between(); });
  outer_closing_ = {};
  outer_closing_ = outer_->on_close([this, before = prefix_of(Phase::kBetween)](const std::string& why) {
    inner_->abort(before + why);
    listeners_.close(before + why);
  });
}

// A member of the inner or outer group may itself lead a group of another layer and wait there. So it gets a whole
// kAnswer for each step that a question may take from here.
Limits Layers::asking(Phase phase, const Limits& limits) const {
  Limits all = limits;
  if (listeners_.answers()) all.answer = std::max<Clock::duration>(all.answer, kAnswer);
  if (phase == Phase::kBetween) all.answer += kAnswer;
  if (phase == Phase::kFromLeader && !leads()) all.answer += 2 * layers_outside_ * kAnswer;
  return all;
}

void Layers::run(Phase phase, const Limits& limits, const Operation& operation) {
  phase_.store(phase);
  try {
    operation(phase == Phase::kBetween ? *outer_ : *inner_, limits);
  } catch (const std::exception& error) {
    const std::string before = prefix_of(phase);
    abort(before + error.what());
    rethrow_with(before, [&](int place) { return rank_of(phase, place); });
  }
  phase_.store(Phase::kNothing);
}

bool Layers::abort(const std::string& why) {
  const bool inside = inner_->abort(why), between = outer_ != nullptr && outer_->abort(why);
  return inside || between;
}

bool Layers::fail(const std::string& why) {
  const bool inside = inner_->fail(why), between = outer_ != nullptr && outer_->fail(why);
  return inside || between;
}

// Expires the wait of the group that this member is in now. The phase may change meanwhile; expire() is repeated then.
void Layers::expire() {
  const Phase phase = phase_.load();
  if (phase == Phase::kBetween) return outer_->expire();
  if (phase != Phase::kNothing) inner_->expire();
}

// A member of the inner group asks: this member keeps it waiting while it is among the leaders, or in no wait at all.
// In the latter case a layer outside may know what it waits for.
void Layers::on_question_inside() {
  const Phase phase = phase_.load();
  if (phase == Phase::kBetween) outer_->expire();
  if (phase == Phase::kNothing) listeners_.ask();
}

// Another leader asks: this leader keeps it waiting while it waits for its own inner group.
void Layers::on_question_between() {
  const Phase phase = phase_.load();
  if (phase == Phase::kInside || phase == Phase::kFromLeader) inner_->expire();
  if (phase == Phase::kNothing) listeners_.ask();
}

std::string Layers::prefix_of(Phase phase) const {
  if (names_ == Names::kOfTheRun) return "";
  return phase == Phase::kBetween ? sizes_.describe_all() : sizes_.describe(mine_);
}

// The rank over all groups of a member of the group that is used in `phase`.
int Layers::rank_of(Phase phase, int place) const {
  return phase == Phase::kBetween ? sizes_.begin(place) : sizes_.begin(mine_) + place;
}

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

// --- Carrier, on the member's thread ---

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

// The carrier's thread waits in the groups without a deadline. So when the member's deadline has passed, this expires
// the wait that the thread is in, again and again, until the thread has failed with an error that names the missing
// member.
void Carrier::wait(std::uint64_t ticket, const Limits& limits) {
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

// --- Carrier, on the carrying thread ---

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
      if (!sum_started(has_first ? Layers::Phase::kFromLeader : Layers::Phase::kInside, stop)) break;
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
bool Carrier::sum_started(Layers::Phase phase, const std::stop_token& stop) {
  std::uint64_t end = summed_;
  if (layers_.leads()) {
    const MutexLock lock(mutex_);
    end = std::min(started_, done_ + kMostAtOnce);
  }
  const at::Tensor said = at::full({1}, static_cast<std::int64_t>(end), at::kLong);
  const Limits inside = layers_.asking(Layers::Phase::kInside);
  const auto hear = [&](Group& inner, const Limits& within) { inner.broadcast(said, 0, within); };
  phase == Layers::Phase::kInside ? layers_.inside(inside, hear) : layers_.from_leader({}, hear);
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
