#include "tandem/shm/exchange.h"

#include <algorithm>
#include <iomanip>
#include <span>
#include <sstream>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/text.h"

namespace tandem::shm {
namespace {

// Counts the cores of all ranks together, since ranks that are bound to one core each see only their own. The answer is
// the same on all ranks.
int cores_of(ControlBlock& control) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (int rank = 0; rank < control.size; ++rank) CPU_OR(&cores, &cores, &control.rank(rank).cores);
  return CPU_COUNT(&cores);
}

std::uint32_t count_after(std::uint64_t ticket) { return static_cast<std::uint32_t>(ticket + 1); }

constexpr std::uint32_t kShown = 4;

double age_of(std::int64_t sign) { return seconds_since(Clock::time_point(Clock::duration(sign))); }

// Returns one line for each rank, after a line break: its process, when it last posted or finished a collective, how
// many collectives it finished, and the last few that it posted. `names` are the names of the ranks. Never blocks,
// whatever the ranks do meanwhile: a rank that still runs may overwrite the posting that it made kSlots collectives
// ago, but never one of its last few.
std::string describe_ranks(ControlBlock& control, std::span<const int> names) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1);
  for (int rank = 0; rank < control.size; ++rank) {
    const RankBlock& block = control.rank(rank);
    const std::uint32_t posted = block.posted.count(), finished = block.finished.count();
    text << "\n  rank " << names[static_cast<std::size_t>(rank)] << " (process " << block.process
         << "): last sign of life " << age_of(block.last_sign.load(std::memory_order_relaxed)) << " s ago, finished "
         << finished << " collectives, began last";
    const char* separator = " ";
    for (std::uint32_t ticket = posted - std::min(posted, kShown); ticket < posted; ++ticket) {
      text << std::exchange(separator, ", ") << '#' << ticket << ' ' << describe(block.posting(ticket));
    }
    if (posted == 0) text << " none";
  }
  return std::move(text).str();
}

}  // namespace

Exchange::Exchange(Meeting meeting, OnClose on_close, OnCall on_call)
    : region_(std::move(meeting.region)),
      control_(region_->control()),
      rank_(meeting.rank),
      size_(control_.size),
      names_(std::move(meeting.names)),
      on_close_(std::move(on_close)),
      cores_(cores_of(control_)),
      spin_(cores_ >= size_ ? SpinBudget{std::chrono::microseconds(50)} : SpinBudget{}),
      has_gates_(cores_ < size_),
      watch_(
          std::move(meeting.own_lifeline), std::move(meeting.lifelines), [this](int peer) { on_hang_up(peer); },
          std::move(on_call)) {
  sign();
}

std::uint64_t Exchange::next() const {
  if (!is_open()) throw_closed();
  TANDEM_CHECK(posted_ - finished_ < kDepth, "more than ", kDepth, " collectives started and not waited for");
  return posted_;
}

// The gate comes before the counter: a rank whose counter has moved has arrived at the gate for certain.
bool Exchange::post(const Posting& posting) {
  block(rank_).posting(posted_) = posting;
  sign();
  const std::uint64_t ticket = posted_++;
  const bool came_last = has_gates_ && control_.all_posted.arrive(ticket, static_cast<std::uint64_t>(size_));
  block(rank_).posted.advance();
  return came_last;
}

// Each rank compares the postings for itself. Sums over different tensors would give garbage without an error.
void Exchange::await_postings(std::uint64_t ticket, const Limits& limits) {
  TANDEM_CHECK(ticket == finished_ && ticket < posted_, "collectives are waited for in the order of their start");
  await(&RankBlock::posted, control_.all_posted, ticket, limits);
  const Posting& mine = posting(rank_, ticket);
  for (int rank = 0; rank < size_; ++rank) {
    const Posting& other = posting(rank, ticket);
    if (agree(mine, other)) continue;
    close(Cause::kMismatch,
          concat("collective #", ticket, " differs: rank ", name(rank_), " came with ", describe(mine), ", rank ",
                 name(rank), " with ", describe(other), "; the ranks took different branches, or their models differ"));
    throw_closed();
  }
}

void Exchange::finish(std::uint64_t ticket) {
  TANDEM_CHECK(ticket == finished_, "collectives are finished in the order of their start");
  sign();
  ++finished_;
  if (has_gates_) (void)control_.all_finished.arrive(ticket, static_cast<std::uint64_t>(size_));
  block(rank_).finished.advance();
}

void Exchange::await_finishes(std::uint64_t ticket, const Limits& limits) {
  await(&RankBlock::finished, control_.all_finished, ticket, limits);
}

// Without gates the ranks are waited for in turn; usually all have come when the first one is looked at.
void Exchange::await(SharedCounter RankBlock::*counter, Gate& gate, std::uint64_t ticket, const Limits& limits) {
  if (has_gates_) {
    if (!gate.opened().has_reached(count_after(ticket))) sleep(counter, gate.opened(), ticket, limits);
    return;
  }
  for (int rank = 0; rank < size_; ++rank) {
    SharedCounter& waited_for = block(rank).*counter;
    if (waited_for.spin(count_after(ticket), spin_) && waited_for.has_reached(count_after(ticket))) continue;
    sleep(counter, waited_for, ticket, limits);
  }
}

// 1. Makes a stop request close the group. 2. Sleeps, and calls the missing ranks at the deadline. 3. Closes the group
// if the ranks are still missing, and throws the reason, which may be another rank's.
void Exchange::sleep(SharedCounter RankBlock::*counter, SharedCounter& waited_for, std::uint64_t ticket,
                     const Limits& limits) {
  const auto waiting = [&] {
    const std::string ranks = joined(missing(counter, ticket), [this](int each) { return name(each); });
    return concat(describe(posting(rank_, ticket)), " #", ticket, ": rank ", name(rank_),
                  ranks.empty() ? "" : " waited for rank ", ranks);
  };
  const std::stop_callback on_stop(limits.stop,
                                   [&] { close(Cause::kStopped, concat(waiting(), " until it was asked to stop")); });
  const SharedCounter::Outcome outcome = sleep_and_call(counter, waited_for, ticket, limits);
  if (outcome == SharedCounter::Outcome::kReached) return;
  // The gate may have been opened just now. A rank advances its own counter only after it has arrived at the gate, so a
  // rank that was stopped or died before is missing.
  if (has_gates_ && missing(counter, ticket).empty()) return;
  if (outcome == SharedCounter::Outcome::kDeadline) {
    close(Cause::kDeadline, concat(waiting(),
                                   " until the deadline; it is stopped or stuck in its own work, or took another "
                                   "branch than the others"));
  }
  throw_closed();
}

SharedCounter::Outcome Exchange::sleep_and_call(SharedCounter RankBlock::*counter, SharedCounter& waited_for,
                                                std::uint64_t ticket, const Limits& limits) {
  const auto sleep_on = [&](SharedCounter* sleeping_on) {
    const MutexLock lock(sleeping_);
    sleeping_on_ = sleeping_on;
    hurried_.store(false);
  };
  sleep_on(&waited_for);
  const auto outcome = wait_and_ask(
      limits, [&](const Deadline& deadline) { return waited_for.sleep(count_after(ticket), deadline, hurried_); },
      [&] {
        for (const int each : missing(counter, ticket)) watch_.call(each);
        hurried_.store(false);
      });
  sleep_on(nullptr);
  return outcome;
}

// Under the lock: sleeping_on_ may not go away between the look and the wake-up.
void Exchange::expire() {
  const MutexLock lock(sleeping_);
  if (sleeping_on_ == nullptr) return;
  hurried_.store(true);
  sleeping_on_->wake();
}

// The reason is written before the group is closed, so no rank ever sees half a reason. It is written only once, since
// a closed group stays closed.
void Exchange::close(Cause cause, int lost, const std::string& why) {
  {
    const MutexLock lock(closing_);
    if (is_open()) {
      Closing& closing = block(rank_).closing;
      closing.cause = cause;
      closing.lost = lost;
      closing.text[why.copy(closing.text.data(), closing.text.size() - 1)] = 0;
    }
    control_.close(rank_);
    watch_.hang_up();
  }
  // An orderly leave is not told: ranks that need nothing more from the leaver go on, and the others find out in their
  // waits.
  const int by = control_.closed_by.load(std::memory_order_seq_cst);
  if (block(by).closing.cause != Cause::kLeft && !told_.exchange(true)) on_close_(why_closed());
}

// A rank that has closed the group hangs up, too. In that case its reason stands already, and close() keeps it.
void Exchange::on_hang_up(int peer) {
  const RankBlock& lost = block(peer);
  const bool left = lost.left.load();
  close(left ? Cause::kLeft : Cause::kLost, peer,
        concat("rank ", name(peer), " (process ", lost.process, ")", left ? " left the group" : " died"));
}

std::string Exchange::why_closed() const {
  const int by = control_.closed_by.load(std::memory_order_seq_cst);
  return concat("the host group of ", size_, " ranks was closed by rank ", name(by), ": ",
                block(by).closing.text.data(), describe_ranks(control_, names_));
}

void Exchange::throw_closed() const {
  const int by = control_.closed_by.load(std::memory_order_seq_cst);
  const Closing& closing = block(by).closing;
  shm::throw_closed(closing.cause, by == rank_ ? ClosedBy::kMe : ClosedBy::kAnother, closing.lost, why_closed());
}

void Exchange::sign() {
  block(rank_).last_sign.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
}

// The ranks whose `counter` has not reached collective `ticket`.
std::vector<int> Exchange::missing(SharedCounter RankBlock::*counter, std::uint64_t ticket) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (!(block(rank).*counter).has_reached(count_after(ticket))) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace tandem::shm
