#include "tandem/shm/member.h"

#include <algorithm>
#include <cstring>
#include <iomanip>
#include <locale>
#include <sstream>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/equal_parts.h"
#include "tandem/base/text.h"

namespace tandem::shm {
namespace {

std::uint32_t count_after(std::uint64_t ticket) { return static_cast<std::uint32_t>(ticket + 1); }

constexpr std::uint32_t kShown = 4;

double age_of(std::int64_t sign) { return seconds_since(Clock::time_point(Clock::duration(sign))); }

// Returns one line for each rank, after a line break: its process, when it last posted or finished a collective, how
// many collectives it finished, and the last few that it posted. `names` are the names of the ranks. Never blocks,
// whatever the ranks do meanwhile: a rank that still runs may overwrite the posting that it made kSlots collectives
// ago, but never one of its last few.
std::string describe_ranks(ControlBlock& control, std::span<const int> names) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
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

// Where ranks have no core each, one rank sums for all up to this many bytes, which are counted over all ranks and
// multiplied by the number of cores: the more cores there are, the more is lost when only one of them works. Measured
// on two cores.
constexpr std::size_t kMostForOne = std::size_t{8} << 20;

}  // namespace

Member::Member(Meeting meeting, OnClose on_close, OnCall on_call)
    : region_(std::move(meeting.region)),
      control_(region_->control()),
      rank_(meeting.rank),
      size_(control_.size),
      names_(std::move(meeting.names)),
      on_close_(std::move(on_close)),
      cores_(control_.usable_cores()),
      has_gates_(cores_.whole() < size_),
      patience_(patience_among(size_, cores_)),
      arena_(std::make_shared<Arena>(region_, rank_)),
      scratch_(static_cast<std::size_t>(size_) * kInlineBytes),
      arrays_(static_cast<std::size_t>(size_)),
      watch_(
          std::move(meeting.own_lifeline), std::move(meeting.lifelines), [this](int peer) { on_hang_up(peer); },
          std::move(on_call)) {
  sign();
}

std::shared_ptr<std::byte> Member::allocate(std::uint64_t bytes) {
  if (!control_.is_open()) throw_closed();
  std::shared_ptr<std::byte> memory = arena_->allocate(bytes);
  std::memset(memory.get(), 0, bytes);
  return memory;
}

std::uint64_t Member::start_all_reduce(void* data, std::int64_t count, const Element& element) {
  TANDEM_CHECK(element.sum != nullptr, element.name, " cannot be summed");
  return start(posting_of(Operation::kAllReduce, count, element.name), data, element, Payload::kPost);
}

void Member::finish_all_reduce(std::uint64_t ticket, const Limits& limits) {
  if (is_summed_by_one(ticket)) {
    sum_by_one(ticket, limits);
  } else {
    await_postings(ticket, limits);
    if (all_in_slots(ticket)) {
      sum_slots(ticket);
    } else {
      sum_my_part(ticket);
    }
    finish(ticket, limits);
  }
  Started& mine = started(ticket);
  if (mine.copy) std::memcpy(mine.data, mine.copy.get(), mine.bytes);
  mine.copy.reset();
}

void Member::broadcast(void* data, std::int64_t count, const Element& element, int root, const Limits& limits) {
  TANDEM_CHECK(root >= 0 && root < size(), "root ", root, " of ", size());
  const std::uint64_t ticket = start(posting_of(Operation::kBroadcast, count, element.name, name(root)), data, element,
                                     rank() == root ? Payload::kPost : Payload::kNone);
  await_postings(ticket, limits);
  if (const std::size_t bytes = started(ticket).bytes; rank() != root && bytes > 0) {
    std::memcpy(data, payload(root, ticket), bytes);
  }
  finish(ticket, limits);
  started(ticket).copy.reset();
}

void Member::all_gather(const void* data, std::int64_t count, const Element& element, Sizes sizes, const Visit& visit,
                        const Limits& limits) {
  const Operation operation = sizes == Sizes::kEqual ? Operation::kAllGatherEqual : Operation::kAllGather;
  const std::uint64_t ticket =
      start(posting_of(operation, count, element.name), const_cast<void*>(data), element, Payload::kPost);
  await_postings(ticket, limits);
  for (int rank = 0; rank < size(); ++rank) visit(rank, payload(rank, ticket), posting(rank, ticket).count);
  finish(ticket, limits);
  started(ticket).copy.reset();
}

void Member::barrier(const Limits& limits) {
  constexpr Element kNothing{.name = "", .bytes = 0};
  const std::uint64_t ticket = start(posting_of(Operation::kBarrier, 0, ""), nullptr, kNothing, Payload::kNone);
  await_postings(ticket, limits);
  finish(ticket, limits);
}

// Puts the payload into its slot, or finds or makes its place in the group's memory, and posts.
std::uint64_t Member::start(Posting posting, void* data, const Element& element, Payload payload) {
  const std::uint64_t ticket = next();
  Started& mine = started(ticket);
  mine.data = data;
  mine.bytes = static_cast<std::size_t>(posting.count) * element.bytes;
  mine.element = element;
  if (payload == Payload::kPost && mine.bytes <= kInlineBytes) {
    if (mine.bytes > 0) std::memcpy(block(rank_).slot(ticket), data, mine.bytes);
  } else if (payload == Payload::kPost && region_->contains(data)) {
    posting.offset = region_->offset_of(data);
  } else if (payload == Payload::kPost) {
    mine.copy = arena_->allocate(mine.bytes);
    std::memcpy(mine.copy.get(), data, mine.bytes);
    posting.offset = region_->offset_of(mine.copy.get());
  }
  mine.came_last = post(posting);
  return ticket;
}

// Payloads in slots may be overwritten without asking (Note [Slots are free when they come round again]). Other ranks
// may still read or write a payload that lies elsewhere, so this rank waits for them.
void Member::finish(std::uint64_t ticket, const Limits& limits) {
  const bool in_slots = all_in_slots(ticket);
  say_finished(ticket);
  if (!in_slots) await_finishes(ticket, limits);
}

std::byte* Member::payload(int rank, std::uint64_t ticket) {
  const std::uint64_t offset = posting(rank, ticket).offset;
  return offset == Posting::kInSlot ? block(rank).slot(ticket) : region_->at(offset);
}

bool Member::all_in_slots(std::uint64_t ticket) {
  for (int rank = 0; rank < size(); ++rank) {
    if (posting(rank, ticket).offset != Posting::kInSlot) return false;
  }
  return true;
}

// Sums copies, since the other ranks still read the slots.
void Member::sum_slots(std::uint64_t ticket) {
  const Started& mine = started(ticket);
  for (int rank = 0; rank < size(); ++rank) {
    std::byte* copy = scratch_.data() + static_cast<std::size_t>(rank) * kInlineBytes;
    std::memcpy(copy, block(rank).slot(ticket), mine.bytes);
    arrays_[static_cast<std::size_t>(rank)] = copy;
  }
  mine.element.sum(arrays_, 0, posting(rank(), ticket).count);
  if (mine.bytes > 0) std::memcpy(mine.data, scratch_.data(), mine.bytes);
}

void Member::sum_my_part(std::uint64_t ticket) {
  if (size() == 1) return;
  for (int rank = 0; rank < size(); ++rank) arrays_[static_cast<std::size_t>(rank)] = payload(rank, ticket);
  const EqualParts parts(posting(rank(), ticket).count, size());
  started(ticket).element.sum(arrays_, parts.begin(rank()), parts.begin(rank() + 1));
}

// Decides by this rank's own posting, without a wait. All ranks decide alike when their postings agree; the rank that
// came last notices when they do not.
bool Member::is_summed_by_one(std::uint64_t ticket) {
  if (!has_gates_) return false;
  const std::size_t bytes = started(ticket).bytes;
  const auto ranks_times_cores = static_cast<std::size_t>(size()) * static_cast<std::size_t>(cores_.whole());
  return bytes > kInlineBytes && bytes * ranks_times_cores <= kMostForOne;
}

// The other ranks have nothing to do, so they finish at once and wait for the sum.
void Member::sum_by_one(std::uint64_t ticket, const Limits& limits) {
  if (started(ticket).came_last) {
    await_postings(ticket, limits);
    for (int rank = 0; rank < size(); ++rank) arrays_[static_cast<std::size_t>(rank)] = payload(rank, ticket);
    started(ticket).element.sum(arrays_, 0, posting(rank(), ticket).count);
  }
  say_finished(ticket);
  await_finishes(ticket, limits);
}

// --- the steps of a collective --------------------------------------------------------------------------------------

std::uint64_t Member::next() const {
  if (!control_.is_open()) throw_closed();
  TANDEM_CHECK(posted_ - finished_ < kDepth, "more than ", kDepth, " collectives started and not waited for");
  return posted_;
}

// The gate comes before the counter: a rank whose counter has moved has arrived at the gate for certain.
bool Member::post(const Posting& posting) {
  block(rank_).posting(posted_) = posting;
  block(rank_).core.sign();
  sign();
  const std::uint64_t ticket = posted_++;
  const bool came_last = has_gates_ && control_.all_posted.arrive(ticket, static_cast<std::uint64_t>(size_));
  block(rank_).posted.advance();
  return came_last;
}

// Each rank compares the postings for itself. Sums over different tensors would give garbage without an error.
void Member::await_postings(std::uint64_t ticket, const Limits& limits) {
  TANDEM_CHECK(ticket == finished_ && ticket < posted_, "collectives are waited for in the order of their start");
  await(&RankBlock::posted, control_.all_posted, ticket, limits);
  const Posting& mine = posting(rank_, ticket);
  for (int rank = 0; rank < size_; ++rank) {
    const Posting& other = posting(rank, ticket);
    if (agree(mine, other)) continue;
    close(Cause::kMismatch, rank_,
          concat("collective #", ticket, " differs: rank ", name(rank_), " came with ", describe(mine), ", rank ",
                 name(rank), " with ", describe(other), "; the ranks took different branches, or their models differ"));
    throw_closed();
  }
}

void Member::say_finished(std::uint64_t ticket) {
  TANDEM_CHECK(ticket == finished_, "collectives are finished in the order of their start");
  sign();
  ++finished_;
  if (has_gates_) (void)control_.all_finished.arrive(ticket, static_cast<std::uint64_t>(size_));
  block(rank_).finished.advance();
}

// Without gates the ranks are waited for in turn; usually all have come when the first one is looked at.
void Member::await(SharedCounter RankBlock::*counter, Gate& gate, std::uint64_t ticket, const Limits& limits) {
  const auto look_or_sleep = [&](SharedCounter& waited_for, const auto& shares_core) {
    const std::uint32_t count = count_after(ticket);
    if (waited_for.look(count, patience_, shares_core) && waited_for.has_reached(count)) return;
    sleep(counter, waited_for, ticket, limits);
  };
  if (has_gates_) {
    look_or_sleep(gate.opened(), [] { return true; });
    return;
  }
  for (int rank = 0; rank < size_; ++rank) {
    look_or_sleep(block(rank).*counter, [&] { return block(rank).core.is_mine(); });
  }
}

// 1. Makes a stop request close the group. 2. Sleeps, and calls the missing ranks at the deadline. 3. Closes the group
// if the ranks are still missing, and throws the reason, which may be another rank's.
void Member::sleep(SharedCounter RankBlock::*counter, SharedCounter& waited_for, std::uint64_t ticket,
                   const Limits& limits) {
  const auto waiting = [&] {
    const std::string ranks = joined(missing(counter, ticket), [this](int each) { return name(each); });
    return concat(describe(posting(rank_, ticket)), " #", ticket, ": rank ", name(rank_),
                  ranks.empty() ? "" : " waited for rank ", ranks);
  };
  const std::stop_callback on_stop(
      limits.stop, [&] { close(Cause::kStopped, rank_, concat(waiting(), " until it was asked to stop")); });
  const SharedCounter::Outcome outcome = sleep_and_call(counter, waited_for, ticket, limits);
  if (outcome == SharedCounter::Outcome::kReached) return;
  // The gate may have been opened just now. A rank advances its own counter only after it has arrived at the gate, so a
  // rank that was stopped or died before is missing.
  if (has_gates_ && missing(counter, ticket).empty()) return;
  if (outcome == SharedCounter::Outcome::kDeadline) {
    close(Cause::kDeadline, rank_,
          concat(waiting(),
                 " until the deadline; it is stopped or stuck in its own work, or took another "
                 "branch than the others"));
  }
  throw_closed();
}

SharedCounter::Outcome Member::sleep_and_call(SharedCounter RankBlock::*counter, SharedCounter& waited_for,
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
  patience_.slept();
  block(rank_).core.sign();
  return outcome;
}

// Under the lock: sleeping_on_ may not go away between the look and the wake-up.
void Member::expire() {
  const MutexLock lock(sleeping_);
  if (sleeping_on_ == nullptr) return;
  hurried_.store(true);
  sleeping_on_->wake();
}

// The reason is written before the group is closed, so no rank ever sees half a reason. It is written only once, since
// a closed group stays closed.
bool Member::close(Cause cause, int lost, const std::string& why) {
  bool closed = false;
  {
    const MutexLock lock(closing_);
    if (control_.is_open()) {
      Closing& closing = block(rank_).closing;
      closing.cause = cause;
      closing.lost = lost;
      closing.text[why.copy(closing.text.data(), closing.text.size() - 1)] = 0;
    }
    closed = control_.close(rank_);
    watch_.hang_up();
  }
  // An orderly leave is not told: ranks that need nothing more from the leaver go on, and the others find out in their
  // waits.
  const int by = control_.closed_by.load(std::memory_order_seq_cst);
  if (block(by).closing.cause != Cause::kLeft && !told_.exchange(true)) on_close_(why_closed());
  return closed;
}

bool Member::fail(const std::string& why) {
  const MutexLock lock(closing_);
  RankBlock& mine = block(rank_);
  if (!control_.is_open() || mine.left.load()) return false;
  mine.why_left[why.copy(mine.why_left.data(), mine.why_left.size() - 1)] = 0;
  mine.left.store(true, std::memory_order_seq_cst);
  return true;
}

// A rank that has closed the group hangs up, too. In that case its reason stands already, and close() keeps it.
void Member::on_hang_up(int peer) {
  const RankBlock& lost = block(peer);
  const bool left = lost.left.load();
  const std::string why =
      left ? std::string(lost.why_left.data(), ::strnlen(lost.why_left.data(), lost.why_left.size())) : std::string();
  (void)close(left ? Cause::kLeft : Cause::kLost, peer,
              concat("rank ", name(peer), " (process ", lost.process, ") ",
                     !left         ? "died"
                     : why.empty() ? "left the group"
                                   : why));
}

std::string Member::why_closed() const {
  const int by = control_.closed_by.load(std::memory_order_seq_cst);
  return concat("the host group of ", size_, " ranks was closed by rank ", name(by), ": ",
                block(by).closing.text.data(), describe_ranks(control_, names_));
}

void Member::throw_closed() const {
  const int by = control_.closed_by.load(std::memory_order_seq_cst);
  const Closing& closing = block(by).closing;
  shm::throw_closed(closing.cause, by == rank_ ? ClosedBy::kMe : ClosedBy::kAnother, closing.lost, why_closed());
}

void Member::sign() {
  block(rank_).last_sign.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
}

// The ranks whose `counter` has not reached collective `ticket`.
std::vector<int> Member::missing(SharedCounter RankBlock::*counter, std::uint64_t ticket) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (!(block(rank).*counter).has_reached(count_after(ticket))) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace tandem::shm
