#include "tandem/comm/links/linked_member.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <cstring>
#include <deque>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/comm/links/broken_pipe_mask.h"
#include "tandem/comm/links/link_collective.h"
#include "tandem/comm/listeners.h"

namespace tandem::comm {
namespace {

using shm::Operation;

shm::Posting posting_of(Operation operation, std::int64_t count, at::ScalarType dtype, int root = 0) {
  return shm::posting_of(operation, count, c10::toString(dtype), root);
}

// The member's thread appends tasks to a queue and waits for their results in order. The sending thread takes them from
// there: it announces a task, sends, announces the next task if there is one, and ends the first. So up to two
// collectives are under way, and the network does not idle between them.
//
// The numbers completed_ <= executed_ <= started_ count the tasks whose results the member has taken, that are done,
// and that were started; tasks_ holds those from completed_ on.
class LinkedMember final : public Group {
 public:
  explicit LinkedMember(LinkedMemberOptions options)
      : devices_(std::move(options.device_backend)),
        links_(
            std::move(options.ends), options.rank, options.names,
            [this](const std::string& failure) { on_close(failure); }, [this] { listeners_.ask(); }),
        sender_("group-sender", [this](const std::stop_token& stop) { execute_all(stop); }) {}
  ~LinkedMember() override { links_.leave(); }

  [[nodiscard]] int rank() const override { return links_.rank(); }
  [[nodiscard]] int size() const override { return links_.size(); }
  [[nodiscard]] bool goes_on_alone() const override { return true; }

  Pending start_all_reduce(const at::Tensor& flat) override {
    require_summable(flat);
    return {*this, start({posting_of(Operation::kAllReduce, flat.numel(), flat.scalar_type())}, flat)};
  }

  void broadcast(const at::Tensor& flat, int root, const Limits& limits) override {
    require_broadcast(flat, root);
    const Announcement announcement{
        posting_of(Operation::kBroadcast, flat.numel(), flat.scalar_type(), links_.name(root))};
    (void)complete(start(announcement, flat, root), limits);
  }

  [[nodiscard]] std::vector<at::Tensor> all_gather(const at::Tensor& mine, const Limits& limits) override {
    const Announcement announcement{.posting = posting_of(Operation::kAllGather, mine.numel(), mine.scalar_type()),
                                    .row = c10::size_from_dim_(1, mine.sizes())};
    std::vector<at::Tensor> all = complete(start(announcement, mine.contiguous()), limits).gathered;
    std::vector<std::int64_t> shape = mine.sizes().vec();
    for (at::Tensor& each : all) {
      if (!shape.empty()) shape.front() = announcement.row == 0 ? 0 : each.numel() / announcement.row;
      each = each.view(shape).to(mine.device());
    }
    return all;
  }

  void all_gather(std::span<const double> mine, std::span<double> all, const Limits& limits) override {
    require_room(mine, all);
    const at::Tensor copy = at::empty({std::ssize(mine)}, at::kDouble);
    if (!mine.empty()) std::memcpy(copy.data_ptr(), mine.data(), mine.size_bytes());
    const LinkTask done =
        complete(start({posting_of(Operation::kAllGatherEqual, std::ssize(mine), at::kDouble)}, copy), limits);
    for (std::size_t rank = 0; rank < done.gathered.size() && !mine.empty(); ++rank) {
      std::memcpy(&all[rank * mine.size()], done.gathered[rank].data_ptr(), mine.size_bytes());
    }
  }

  // A gather of unequal sizes. What a member owns is received in place if it lies in one piece in this host's memory,
  // and otherwise copied to its places afterwards.
  void share_parts(const at::Tensor& flat, std::span<const OwnedPart> parts, const Limits& limits) override {
    require_flat(flat, "shares parts of");
    const at::Tensor mine = packed(flat, parts, rank());
    std::vector<at::Tensor> memory;
    for (int each = 0; each < size() && flat.is_cpu(); ++each) memory.push_back(packed(flat, parts, each));
    const Announcement announcement{.posting = posting_of(Operation::kAllGather, mine.numel(), mine.scalar_type())};
    const LinkTask done = complete(start(announcement, mine, /*root=*/0, std::move(memory)), limits);
    for (int each = 0; each < size(); ++each)
      unpack(done.gathered[static_cast<std::size_t>(each)].to(flat.device()), flat, parts, each);
  }

  void barrier(const Limits& limits) override {
    (void)complete(start({shm::Posting{.operation = Operation::kBarrier}}, {}), limits);
  }

  bool abort(const std::string& why) override { return links_.close(shm::Cause::kAborted, why); }
  bool fail(const std::string& why) override { return links_.leave(why); }
  void expire() override {
    if (links_.waiting_for().empty()) return;  // an error could name no missing rank
    const MutexLock lock(mutex_);
    if (!waits_) return;
    expire_requested_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] Listening on_close(std::function<void(const std::string&)> listener) override {
    return listeners_.on_close(std::move(listener));
  }
  void on_question(std::function<void()> listener) override { listeners_.on_question(std::move(listener)); }

 protected:
  void finish(std::uint64_t ticket, const Limits& limits) override { (void)complete(ticket, limits); }

 private:
  std::uint64_t start(const Announcement& announcement, const at::Tensor& tensor, int root = 0,
                      std::vector<at::Tensor> memory = {}) {
    LinkTask task{
        .announcement = announcement, .tensor = tensor, .root = root, .ready = {}, .gathered = std::move(memory)};
    task.announcement.by_device = devices_ && tensor.defined() && tensor.is_cuda();
    if (tensor.defined() && !tensor.is_cpu()) {
      task.ready = std::make_unique<c10::Event>(tensor.device().type());
      task.ready->record(c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device()));
    }
    if (!links_.is_open()) links_.throw_closed();
    const MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
    changed_.notify_all();
    return started_++;
  }

  // Waits for the collective and returns its task. Otherwise closes the links, if they are open, and throws what closed
  // them.
  LinkTask complete(std::uint64_t ticket, const Limits& limits) {
    {
      const MutexLock lock(mutex_);
      require_order(ticket == completed_ && ticket < started_);
    }
    const WaitOutcome outcome = wait_and_ask(
        limits, [&](const Deadline& deadline) { return await(ticket, deadline, limits.stop); }, [&] { links_.ask(); });
    {
      const MutexLock lock(mutex_);
      if (executed_ > ticket) {
        ++completed_;
        LinkTask task = std::move(tasks_.front());
        tasks_.pop_front();
        return task;
      }
    }
    if (outcome == WaitOutcome::kDeadline) {
      links_.close(shm::Cause::kDeadline,
                   concat(links_.waiting(), " until the deadline; it is stopped or stuck in its own work, or took ",
                          "another branch than the others"));
    } else if (outcome == WaitOutcome::kStopped) {
      links_.close(shm::Cause::kStopped, concat(links_.waiting(), " until it was asked to stop"));
    }
    links_.throw_closed();
  }

  // Waits until the collective is executed or the links are closed, or until expire() is called.
  WaitOutcome await(std::uint64_t ticket, const Deadline& deadline, const std::stop_token& stop) {
    const MutexLock lock(mutex_);
    const auto over = [&]() TANDEM_REQUIRES(mutex_) { return executed_ > ticket || closed_; };
    waits_ = true;
    expire_requested_ = false;
    (void)changed_.wait(mutex_, stop, deadline, [&]() TANDEM_REQUIRES(mutex_) { return over() || expire_requested_; });
    waits_ = false;
    if (over()) return WaitOutcome::kReady;
    return stop.stop_requested() ? WaitOutcome::kStopped : WaitOutcome::kDeadline;
  }

  // PeerLinks calls this once, when it closes. `failure` is empty when this member leaves.
  void on_close(const std::string& failure) {
    {
      const MutexLock lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
    if (devices_) devices_->abort();
    if (!failure.empty()) listeners_.close(failure);
  }

  // --- the sending thread ---

  void execute_all(const std::stop_token&) {
    const BrokenPipeMask mask;  // NCCL writes
    const at::NoGradGuard no_grad;
    try {
      std::unique_ptr<LinkCollective> current, following;
      // The following collective is announced and begun before the current one ends.
      const auto look_ahead = [&] {
        if (!following) following = announce(/*has_current=*/true);
      };
      while (current || (current = announce(/*has_current=*/false))) {
        current->send(look_ahead);
        look_ahead();
        if (following) following->begin_early();
        current->end();
        current = std::exchange(following, nullptr);
        const MutexLock lock(mutex_);
        ++executed_;
        changed_.notify_all();
      }
    } catch (const std::exception& error) {
      links_.close(shm::Cause::kAborted, error.what());  // does nothing if the error is that the links are closed
    }
    links_.take_leave();
  }

  // Announces the task after the current one, or the next one if there is no current one, for which this waits. Returns
  // null when the links are closed; after a current one also when there is no task, or when a device may have to write
  // its tensor first, since this must not wait then. The task stays in the queue until the member's thread takes it.
  std::unique_ptr<LinkCollective> announce(bool has_current) {
    LinkTask* task = nullptr;
    {
      const MutexLock lock(mutex_);
      const std::uint64_t number = executed_ + (has_current ? 1 : 0);
      const auto ready = [&]() TANDEM_REQUIRES(mutex_) { return closed_ || number < started_; };
      if (!has_current) changed_.wait(mutex_, std::stop_token(), ready);
      if (closed_ || number >= started_) return nullptr;
      task = &tasks_[number - completed_];
    }
    if (has_current && task->ready) return nullptr;
    return std::make_unique<LinkCollective>(links_, devices_.get(), *task, memory_[announced_++ % memory_.size()]);
  }

  // The first member, so that it is destroyed after the links.
  std::array<LinkMemory, PeerLinks::kAtOnce> memory_;
  std::uint64_t announced_ = 0;
  Mutex mutex_;
  CondVar changed_;
  std::deque<LinkTask> tasks_ TANDEM_GUARDED_BY(mutex_);  // numbers completed_ to started_ - 1
  std::uint64_t started_ TANDEM_GUARDED_BY(mutex_) = 0, executed_ TANDEM_GUARDED_BY(mutex_) = 0,
                         completed_ TANDEM_GUARDED_BY(mutex_) = 0;
  bool closed_ TANDEM_GUARDED_BY(mutex_) = false;
  bool waits_ TANDEM_GUARDED_BY(mutex_) = false, expire_requested_
                                                 TANDEM_GUARDED_BY(mutex_) = false;  // the member's thread
  Listeners listeners_;
  const c10::intrusive_ptr<c10d::Backend> devices_;  // or none
  PeerLinks links_;
  Worker sender_;
};

}  // namespace

std::unique_ptr<Group> make_linked_member(LinkedMemberOptions options) {
  return std::make_unique<LinkedMember>(std::move(options));
}

}  // namespace tandem::comm
