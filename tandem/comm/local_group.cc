#include "tandem/comm/local_group.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>

#include "tandem/base/check.h"
#include "tandem/base/equal_parts.h"
#include "tandem/base/error.h"
#include "tandem/base/mutex.h"
#include "tandem/comm/listeners.h"
#include "tandem/comm/tree_reduce.h"
#include "tandem/concurrency/wait_word.h"

namespace tandem::comm {
namespace {

enum class Collective { kAllReduce, kBroadcast, kAllGather, kAllGatherNumbers, kShareParts, kBarrier };

const char* name_of(Collective operation) {
  constexpr std::array kNames{"all_reduce",  "broadcast", "all_gather", "all_gather of numbers",
                              "share_parts", "barrier"};
  return kNames[static_cast<std::size_t>(operation)];
}

// A member's part in one collective. All members' postings for the same ticket must agree in operation, count and
// dtype.
struct Posting {
  Collective operation{};
  std::int64_t count = 0;  // elements; for all_gather of tensors not compared
  c10::ScalarType dtype = c10::kByte;
  void* data = nullptr;  // CPU memory
  at::Tensor tensor;     // kept alive until the collective's end
};

// How many collectives a member may have started and not finished.
constexpr std::uint32_t kDepth = 256;

// What the others look at while they wait has cache lines of its own, away from what the member writes meanwhile.
struct alignas(64) MemberState {
  explicit MemberState(int members) : patience(patience_among(members)) {}

  std::atomic<std::uint32_t> posted{0};    // collectives whose posting is visible
  std::atomic<std::uint32_t> finished{0};  // collectives whose work is done
  LastCore core;                           // where it posted last
  alignas(64) std::array<Posting, kDepth> postings;
  alignas(64) std::atomic<bool> sleeps{false};  // in a wait
  std::atomic<bool> expire_requested{false};    // as if the deadline of that had passed
  Patience patience;                            // its own
};

using Counter = std::atomic<std::uint32_t> MemberState::*;

// Whether `counter` has reached `value`; both may wrap around.
bool reached(const std::atomic<std::uint32_t>& counter, std::uint32_t value) {
  return static_cast<std::int32_t>(counter.load(std::memory_order_seq_cst) - value) >= 0;
}

// The state that all members share: what each has posted and finished, who waits, and why the group was aborted.
//
// Collectives are numbered by tickets from 0. A member writes its posting and then raises `posted`; after all members'
// `posted` have passed the ticket, everybody may read all postings of it. After all members' `finished` have passed the
// ticket, nobody reads them any more and the slot of the ring may be reused.
class Exchange {
 public:
  explicit Exchange(int size) : listeners_(static_cast<std::size_t>(size)) {
    for (int rank = 0; rank < size; ++rank) members_.push_back(std::make_unique<MemberState>(size));
  }

  [[nodiscard]] int size() const { return static_cast<int>(members_.size()); }
  MemberState& member(int rank) { return *members_[static_cast<std::size_t>(rank)]; }
  Listeners& listeners(int rank) { return listeners_[static_cast<std::size_t>(rank)]; }

  void signal(std::atomic<std::uint32_t>& counter, std::uint32_t value) {
    counter.store(value, std::memory_order_seq_cst);
    event_.notify_all();
  }

  // Waits, as member `rank`, until the chosen counter of every member has reached `value`. Looks for a short time,
  // since replicas mostly arrive together, and then sleeps.
  void wait_for_all(int rank, Counter counter, std::uint32_t value, Collective operation, const Limits& limits) {
    for (const std::unique_ptr<MemberState>& each : members_) {
      const auto ready = [&] { return aborted_.load(std::memory_order_seq_cst) || reached((*each).*counter, value); };
      MemberState& me = member(rank);
      const WaitOutcome outcome = me.patience.look(ready, [&] { return each->core.is_mine(); })
                                      ? WaitOutcome::kReady
                                      : sleep_and_ask(me, ready, counter, value, limits);
      if (aborted_.load(std::memory_order_seq_cst)) throw_aborted();
      if (outcome == WaitOutcome::kDeadline) fail_deadline(counter, value, operation);
      if (outcome == WaitOutcome::kStopped) fail_stopped(rank, counter, value, operation);
    }
  }

  bool abort(const std::string& why) {
    {
      const MutexLock lock(mutex_);
      if (aborted_.load()) return false;
      why_ = why;
      aborted_.store(true, std::memory_order_seq_cst);
    }
    event_.notify_all();
    for (Listeners& each : listeners_) each.close(why);
    return true;
  }

  void expire(int rank) {
    if (!member(rank).sleeps.load()) return;
    member(rank).expire_requested.store(true);
    event_.notify_all();
  }

  [[noreturn]] void throw_aborted() {
    const MutexLock lock(mutex_);
    throw GroupAborted(concat("the group of ", size(), " replicas was aborted: ", why_));
  }

  [[nodiscard]] bool aborted() const { return aborted_.load(std::memory_order_seq_cst); }

 private:
  // Sleeps until `ready`. After the deadline it asks the missing members for as long as limits.answer says.
  template <typename Ready>
  WaitOutcome sleep_and_ask(MemberState& me, const Ready& ready, Counter counter, std::uint32_t value,
                            const Limits& limits) {
    const auto sleep = [&](const Deadline& deadline) {
      me.expire_requested.store(false);
      const WaitOutcome outcome = event_.wait([&] { return ready() || me.expire_requested.load(); },
                                              {.deadline = deadline, .stop = limits.stop});
      if (ready()) return WaitOutcome::kReady;
      return outcome == WaitOutcome::kStopped ? outcome : WaitOutcome::kDeadline;
    };
    me.sleeps.store(true);
    const WaitOutcome outcome = wait_and_ask(limits, sleep, [&] {
      for (const int rank : missing(counter, value)) listeners(rank).ask();
    });
    me.sleeps.store(false);
    me.patience.slept();
    return outcome;
  }

  std::vector<int> missing(Counter counter, std::uint32_t value) {
    std::vector<int> ranks;
    for (int rank = 0; rank < size(); ++rank) {
      if (!reached(member(rank).*counter, value)) ranks.push_back(rank);
    }
    return ranks;
  }

  [[noreturn]] void fail_stopped(int rank, Counter counter, std::uint32_t value, Collective operation) {
    abort(concat(name_of(operation), " #", value, ": replica ", rank, " waited for replica ",
                 joined(missing(counter, value)), " of ", size(), " until it was asked to stop"));
    throw_aborted();
  }

  [[noreturn]] void fail_deadline(Counter counter, std::uint32_t value, Collective operation) {
    const std::string message =
        concat(name_of(operation), " #", value, ": the deadline passed while waiting for replica ",
               joined(missing(counter, value)), " of ", size(),
               "; it is stuck in its own work, or took another branch than the others");
    abort(message);
    throw DeadlineExceeded(message);
  }

  std::vector<std::unique_ptr<MemberState>> members_;  // by rank, as listeners_
  std::vector<Listeners> listeners_;
  EventCount event_;
  std::atomic<bool> aborted_{false};
  Mutex mutex_;
  std::string why_ TANDEM_GUARDED_BY(mutex_);
};

// Waits until the tensor's device has done all work, on any stream: other members use the tensor on their own streams.
void synchronize(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return;
  c10::impl::VirtualGuardImpl(tensor.device().type()).synchronizeDevice(tensor.device().index());
}

class LocalMember final : public Group {
 public:
  LocalMember(std::shared_ptr<Exchange> exchange, int rank)
      : exchange_(std::move(exchange)), rank_(rank), self_(exchange_->member(rank)) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return exchange_->size(); }

  Pending start_all_reduce(const at::Tensor& flat) override {
    require_summable(flat);
    return {*this, post_whole(Collective::kAllReduce, flat)};
  }

  void broadcast(const at::Tensor& flat, int root, const Limits& limits) override {
    require_broadcast(flat, root);
    const std::uint32_t ticket = post_whole(Collective::kBroadcast, flat);
    await_postings(ticket, limits);
    if (rank_ != root) {
      const at::NoGradGuard no_grad;
      at::Tensor(flat).copy_(posting_of(root, ticket).tensor);
      synchronize(flat);
    }
    complete(ticket, limits);
  }

  [[nodiscard]] std::vector<at::Tensor> all_gather(const at::Tensor& mine, const Limits& limits) override {
    synchronize(mine);
    const std::uint32_t ticket = post({Collective::kAllGather, 0, mine.scalar_type(), nullptr, mine});
    await_postings(ticket, limits);
    std::vector<at::Tensor> all;
    for (int rank = 0; rank < size(); ++rank) all.push_back(posting_of(rank, ticket).tensor.to(mine.device()).clone());
    complete(ticket, limits);
    return all;
  }

  void all_gather(std::span<const double> mine, std::span<double> all, const Limits& limits) override {
    require_room(mine, all);
    const std::uint32_t ticket = post({Collective::kAllGatherNumbers, std::ssize(mine), c10::kDouble,
                                       const_cast<double*>(mine.data()), at::Tensor()});
    await_postings(ticket, limits);
    for (int rank = 0; rank < size() && !mine.empty(); ++rank) {
      std::memcpy(all.data() + static_cast<std::size_t>(rank) * mine.size(), posting_of(rank, ticket).data,
                  mine.size_bytes());
    }
    complete(ticket, limits);
  }

  void share_parts(const at::Tensor& flat, std::span<const OwnedPart> parts, const Limits& limits) override {
    require_flat(flat, "shares parts of");
    const std::uint32_t ticket = post_whole(Collective::kShareParts, flat);
    await_postings(ticket, limits);
    const at::NoGradGuard no_grad;
    for (const OwnedPart& part : parts) {
      if (part.owner == rank_) continue;
      flat.narrow(0, part.begin, part.size())
          .copy_(posting_of(part.owner, ticket).tensor.narrow(0, part.begin, part.size()));
    }
    synchronize(flat);
    complete(ticket, limits);
  }

  void barrier(const Limits& limits) override {
    const std::uint32_t ticket = post({Collective::kBarrier, 0, c10::kByte, nullptr, {}});
    await_postings(ticket, limits);
    complete(ticket, limits);
  }

  bool abort(const std::string& why) override { return exchange_->abort(why); }
  void expire() override { exchange_->expire(rank_); }
  [[nodiscard]] Listening on_close(std::function<void(const std::string&)> listener) override {
    return exchange_->listeners(rank_).on_close(std::move(listener));
  }
  void on_question(std::function<void()> listener) override {
    exchange_->listeners(rank_).on_question(std::move(listener));
  }

 protected:
  void finish(std::uint64_t ticket, const Limits& limits) override {
    const auto number = static_cast<std::uint32_t>(ticket);
    await_postings(number, limits);
    if (size() > 1) {
      if (self_.postings[number % kDepth].tensor.is_cpu()) {
        reduce_my_part(number);
      } else if (rank_ == 0) {
        reduce_by_copies(number);
      }
    }
    complete(number, limits);
  }

 private:
  Posting& posting_of(int rank, std::uint32_t ticket) { return exchange_->member(rank).postings[ticket % kDepth]; }

  // Posts a tensor that is equally long on all members.
  std::uint32_t post_whole(Collective operation, const at::Tensor& flat) {
    synchronize(flat);
    return post({operation, flat.numel(), flat.scalar_type(), flat.data_ptr(), flat});
  }

  // Publishes this member's part in the next collective, and returns its ticket. Does not wait.
  std::uint32_t post(Posting posting) {
    if (exchange_->aborted()) exchange_->throw_aborted();
    const std::uint32_t ticket = next_++;
    if (ticket - self_.finished.load() >= kDepth)
      throw ConfigError(concat("more than ", kDepth, " collectives started and not waited for; wait for the first"));
    self_.postings[ticket % kDepth] = std::move(posting);
    self_.core.sign();
    exchange_->signal(self_.posted, ticket + 1);
    return ticket;
  }

  // Waits until all members have posted the collective, and compares their postings with this member's.
  void await_postings(std::uint32_t ticket, const Limits& limits) {
    require_order(ticket == self_.finished.load());
    const Posting& mine = self_.postings[ticket % kDepth];
    exchange_->wait_for_all(rank_, &MemberState::posted, ticket + 1, mine.operation, limits);
    for (int rank = 0; rank < size(); ++rank) {
      const Posting& other = posting_of(rank, ticket);
      if (other.operation != mine.operation || other.count != mine.count || other.dtype != mine.dtype)
        mismatch(ticket, mine, rank, other);
    }
  }

  [[noreturn]] void mismatch(std::uint32_t ticket, const Posting& mine, int rank, const Posting& other) {
    const auto describe = [](const Posting& posting) {
      return concat(name_of(posting.operation), " of ", posting.count, " x ", c10::toString(posting.dtype));
    };
    const std::string message =
        concat("collective #", ticket, " differs: replica ", rank_, " came with ", describe(mine), ", replica ", rank,
               " with ", describe(other), "; the replicas took different branches, or their models differ");
    exchange_->abort(message);
    throw RunError(message);
  }

  // Reports that this member's work is done, and waits for the others', which may still read this member's memory.
  void complete(std::uint32_t ticket, const Limits& limits) {
    Posting& mine = self_.postings[ticket % kDepth];
    exchange_->signal(self_.finished, ticket + 1);
    exchange_->wait_for_all(rank_, &MemberState::finished, ticket + 1, mine.operation, limits);
    mine.tensor = at::Tensor();
  }

  // Sums this member's equal part of the elements along the tree, and writes the sum to all members' tensors.
  void reduce_my_part(std::uint32_t ticket) {
    const Posting& mine = self_.postings[ticket % kDepth];
    arrays_.resize(static_cast<std::size_t>(size()));
    for (int rank = 0; rank < size(); ++rank) arrays_[static_cast<std::size_t>(rank)] = posting_of(rank, ticket).data;
    const EqualParts parts(mine.count, size());
    tree_reduce(arrays_, mine.dtype, parts.begin(rank_), parts.begin(rank_ + 1));
  }

  // Member 0 sums the tensors of all devices and copies the sum to each; the others wait for it in complete().
  void reduce_by_copies(std::uint32_t ticket) {
    const at::NoGradGuard no_grad;
    const at::Device device = self_.postings[ticket % kDepth].tensor.device();
    const at::Tensor sum = tree_sum(
        Range{0, size()}, [&](int rank) { return posting_of(rank, ticket).tensor.to(device); }, std::plus<>());
    for (int rank = 0; rank < size(); ++rank) {
      posting_of(rank, ticket).tensor.copy_(sum);
      synchronize(posting_of(rank, ticket).tensor);
    }
  }

  const std::shared_ptr<Exchange> exchange_;
  const int rank_;
  MemberState& self_;
  std::uint32_t next_ = 0;
  std::vector<void*> arrays_;  // the members' memory in the sum under way; kept, so that a sum allocates nothing
};

}  // namespace

std::vector<std::unique_ptr<Group>> make_local_group(int size) {
  TANDEM_EXPECTS(size >= 1, "a group of ", size, "; give 1 or more");
  const auto exchange = std::make_shared<Exchange>(size);
  std::vector<std::unique_ptr<Group>> members;
  for (int rank = 0; rank < size; ++rank) members.push_back(std::make_unique<LocalMember>(exchange, rank));
  return members;
}

}  // namespace tandem::comm
