#include "tandem/comm/linked_member.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstring>
#include <deque>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/comm/broken_pipe.h"
#include "tandem/comm/close_signal.h"
#include "tandem/comm/device_exchange.h"
#include "tandem/comm/part_exchange.h"
#include "tandem/comm/peer_links.h"
#include "tandem/comm/question_bell.h"
#include "tandem/concurrency/wait_and_ask.h"

namespace tandem::comm {
namespace {

using shm::Operation;

// A collective that was started, until it is waited for.
struct Task {
  Announcement announcement;
  at::Tensor tensor;                  // the caller's; for gathers, what this member gives
  int root;                           // broadcast
  std::unique_ptr<c10::Event> ready;  // when the caller's stream has written it
  std::vector<at::Tensor> gathered;   // by rank, on this host; at the start, the memory for it or nothing
};

shm::Posting posting_of(Operation operation, std::int64_t count, at::ScalarType dtype, int root = 0) {
  shm::Posting posting{.operation = operation, .root = root, .count = count};
  const std::string_view name = c10::toString(dtype);
  TANDEM_CHECK(name.size() < posting.type.size(), name);
  std::copy(name.begin(), name.end(), posting.type.begin());
  return posting;
}

std::int64_t row_of(const at::Tensor& tensor) {
  std::int64_t row = 1;
  for (std::int64_t i = 1; i < tensor.dim(); ++i) row *= tensor.size(i);
  return row;
}

class LinkedMember final : public Group {
 public:
  explicit LinkedMember(LinkedMemberOptions options)
      : devices_(std::move(options.device_backend)),
        links_(
            std::move(options.backend), options.rank, options.names,
            [this](const std::string& failure) { on_close(failure); }, [this] { questions_.ring(); }),
        sender_("c10d-group", [this](const std::stop_token& stop) { execute_all(stop); }) {}
  ~LinkedMember() override { links_.leave(); }

  [[nodiscard]] int rank() const override { return links_.rank(); }
  [[nodiscard]] int size() const override { return links_.size(); }
  [[nodiscard]] bool goes_on_alone() const override { return true; }

  [[nodiscard]] at::Tensor allocate(std::int64_t count, at::ScalarType dtype, at::Device device) override {
    return at::zeros({count}, at::TensorOptions().dtype(dtype).device(device));
  }

  Pending start_all_reduce(const at::Tensor& flat) override {
    TANDEM_CHECK(flat.dim() == 1 && flat.is_contiguous(), "a group reduces flat tensors, got ", flat.dim(),
                 " dimensions");
    TANDEM_CHECK(tree_reduce_of(flat.scalar_type()) != nullptr, c10::toString(flat.scalar_type()), " cannot be summed");
    return {*this, start({posting_of(Operation::kAllReduce, flat.numel(), flat.scalar_type())}, flat)};
  }

  void broadcast(const at::Tensor& flat, int root, const Limits& limits) override {
    TANDEM_CHECK(flat.is_contiguous(), "a group broadcasts contiguous tensors");
    TANDEM_CHECK(root >= 0 && root < size(), "root ", root, " of ", size());
    const Announcement announcement{
        posting_of(Operation::kBroadcast, flat.numel(), flat.scalar_type(), links_.name(root))};
    (void)complete(start(announcement, flat, root), limits);
  }

  [[nodiscard]] std::vector<at::Tensor> all_gather(const at::Tensor& mine, const Limits& limits) override {
    const Announcement announcement{.posting = posting_of(Operation::kAllGather, mine.numel(), mine.scalar_type()),
                                    .row = row_of(mine)};
    std::vector<at::Tensor> all = complete(start(announcement, mine.contiguous()), limits).gathered;
    std::vector<std::int64_t> shape = mine.sizes().vec();
    for (at::Tensor& each : all) {
      if (!shape.empty()) shape.front() = announcement.row == 0 ? 0 : each.numel() / announcement.row;
      each = each.view(shape).to(mine.device());
    }
    return all;
  }

  void all_gather(std::span<const double> mine, std::span<double> all, const Limits& limits) override {
    TANDEM_CHECK(all.size() == mine.size() * static_cast<std::size_t>(size()), all.size(), " for ", size(), " x ",
                 mine.size());
    const at::Tensor copy = at::empty({std::ssize(mine)}, at::kDouble);
    if (!mine.empty()) std::memcpy(copy.data_ptr(), mine.data(), mine.size_bytes());
    const Task done =
        complete(start({posting_of(Operation::kAllGatherEqual, std::ssize(mine), at::kDouble)}, copy), limits);
    for (std::size_t rank = 0; rank < done.gathered.size() && !mine.empty(); ++rank) {
      std::memcpy(&all[rank * mine.size()], done.gathered[rank].data_ptr(), mine.size_bytes());
    }
  }

  // A gather that puts what others have where it belongs, if that is in one piece on this host.
  void share_parts(const at::Tensor& flat, std::span<const OwnedPart> parts, const Limits& limits) override {
    TANDEM_CHECK(flat.dim() == 1 && flat.is_contiguous(), "a group shares parts of flat tensors, got ", flat.dim(),
                 " dimensions");
    const at::Tensor mine = packed(flat, parts, rank());
    std::vector<at::Tensor> memory;
    for (int each = 0; each < size() && flat.is_cpu(); ++each) memory.push_back(packed(flat, parts, each));
    const Announcement announcement{.posting = posting_of(Operation::kAllGather, mine.numel(), mine.scalar_type())};
    const Task done = complete(start(announcement, mine, /*root=*/0, std::move(memory)), limits);
    for (int each = 0; each < size(); ++each)
      unpack(done.gathered[static_cast<std::size_t>(each)].to(flat.device()), flat, parts, each);
  }

  void barrier(const Limits& limits) override {
    (void)complete(start({shm::Posting{.operation = Operation::kBarrier}}, {}), limits);
  }

  void abort(const std::string& why) override { links_.close(shm::Cause::kAborted, why); }
  void expire() override {
    if (links_.waiting_for().empty()) return;  // nobody could be named
    const MutexLock lock(mutex_);
    if (!waits_) return;
    hurried_ = true;
    changed_.notify_all();
  }
  void on_close(std::function<void(const std::string&)> listener) override { failed_.listen(std::move(listener)); }
  void on_question(std::function<void()> listener) override { questions_.listen(std::move(listener)); }

 protected:
  void finish(std::uint64_t ticket, const Limits& limits) override { (void)complete(ticket, limits); }

 private:
  std::uint64_t start(const Announcement& announcement, const at::Tensor& tensor, int root = 0,
                      std::vector<at::Tensor> memory = {}) {
    Task task{.announcement = announcement, .tensor = tensor, .root = root, .ready = {}, .gathered = std::move(memory)};
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

  Task complete(std::uint64_t ticket, const Limits& limits) {
    {
      const MutexLock lock(mutex_);
      TANDEM_CHECK(ticket == completed_ && ticket < started_, "collectives are waited for in the order of their start");
    }
    const WaitOutcome outcome = wait_and_ask(
        limits, [&](const Deadline& deadline) { return await(ticket, deadline, limits.stop); }, [&] { links_.ask(); });
    {
      const MutexLock lock(mutex_);
      if (executed_ > ticket) {
        ++completed_;
        Task task = std::move(tasks_.front());
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

  // Until the collective is executed, or the links are closed.
  WaitOutcome await(std::uint64_t ticket, const Deadline& deadline, const std::stop_token& stop) {
    const MutexLock lock(mutex_);
    const auto over = [&]() TANDEM_REQUIRES(mutex_) { return executed_ > ticket || closed_; };
    waits_ = true;
    hurried_ = false;
    (void)changed_.wait(mutex_, stop, deadline, [&]() TANDEM_REQUIRES(mutex_) { return over() || hurried_; });
    waits_ = false;
    if (over()) return WaitOutcome::kReady;
    return stop.stop_requested() ? WaitOutcome::kStopped : WaitOutcome::kDeadline;
  }

  // `failure` is empty when this member leaves.
  void on_close(const std::string& failure) {
    {
      const MutexLock lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
    if (devices_) devices_->abort();
    if (!failure.empty()) failed_.give(failure);
  }

  // --- the sending thread ---

  void execute_all(const std::stop_token&) {
    const BrokenPipeMask mask;
    const at::NoGradGuard no_grad;
    try {
      while (Task* task = next()) {
        execute(*task);
        links_.finish();
        const MutexLock lock(mutex_);
        ++executed_;
        changed_.notify_all();
      }
    } catch (const std::exception& error) {
      links_.close(shm::Cause::kAborted, error.what());  // unless that is what was thrown
    }
    links_.take_leave();
  }

  // Null when the links are closed. A task stays where it is until the caller takes it.
  Task* next() {
    const MutexLock lock(mutex_);
    changed_.wait(mutex_, std::stop_token(), [&]() TANDEM_REQUIRES(mutex_) { return closed_ || executed_ < started_; });
    return closed_ ? nullptr : &tasks_[executed_ - completed_];
  }

  void execute(Task& task) {
    if (task.ready) task.ready->synchronize();
    const Announcement& mine = task.announcement;
    const std::size_t bytes = task.tensor.defined() ? task.tensor.nbytes() : 0;
    const bool is_small = bytes <= kInlinePayload;
    const bool gives = mine.posting.operation != Operation::kBroadcast || task.root == rank();
    on_cpu_ = task.tensor.defined() && (is_small || !mine.by_device) ? task.tensor.cpu() : at::Tensor();
    links_.announce(mine, bytes > 0 && is_small ? on_cpu_.data_ptr() : nullptr, gives && is_small ? bytes : 0);
    links_.await_all();
    if (mine.by_device && largest_payload(task.tensor.element_size()) > kInlinePayload) return execute_on_device(task);
    switch (mine.posting.operation) {
      case Operation::kAllReduce:
        bytes <= kInlinePayload ? sum_messages() : sum_parts();
        break;
      case Operation::kBroadcast:
        take_from(task.root);
        break;
      case Operation::kAllGather:
      case Operation::kAllGatherEqual:
        gather(task);
        break;
      case Operation::kBarrier:
        return;
    }
    if (!task.tensor.is_cpu()) task.tensor.copy_(on_cpu_);
  }

  [[nodiscard]] std::size_t largest_payload(std::int64_t element_bytes) const {
    std::int64_t count = 0;
    for (int each = 0; each < size(); ++each) count = std::max(count, links_.said(each).announcement.posting.count);
    return static_cast<std::size_t>(count * element_bytes);
  }

  void execute_on_device(Task& task) {
    const c10::DeviceGuard guard(task.tensor.device());
    DeviceExchange exchange(*devices_, rank(), size());
    std::vector<std::int64_t> counts;
    for (int each = 0; each < size(); ++each) counts.push_back(links_.said(each).announcement.posting.count);
    const shm::Posting& posting = task.announcement.posting;
    if (posting.operation == Operation::kAllReduce) exchange.all_reduce(task.tensor);
    if (posting.operation == Operation::kBroadcast) exchange.broadcast(task.tensor, task.root);
    if (posting.operation == Operation::kAllGather) task.gathered = exchange.all_gather(task.tensor, counts);
  }

  void sum_messages() {
    const std::size_t bytes = on_cpu_.nbytes();
    if (bytes == 0) return;
    scratch_.resize(std::max(scratch_.size(), static_cast<std::size_t>(size()) * kInlinePayload));
    std::vector<void*> arrays;
    for (int each = 0; each < size(); ++each) {
      arrays.push_back(scratch_.data() + static_cast<std::size_t>(each) * kInlinePayload);
      std::memcpy(arrays.back(), links_.said(each).payload.data(), bytes);
    }
    tree_reduce(arrays, on_cpu_.scalar_type(), 0, on_cpu_.numel());
    std::memcpy(on_cpu_.data_ptr(), arrays.front(), bytes);
  }

  void sum_parts() {
    const PartExchange::Vector vector{.data = static_cast<std::byte*>(on_cpu_.data_ptr()),
                                      .count = on_cpu_.numel(),
                                      .element_bytes = c10::elementSize(on_cpu_.scalar_type()),
                                      .sum = tree_reduce_of(on_cpu_.scalar_type())};
    PartExchange(links_, vector, scratch_).run();
  }

  void take_from(int root) {
    const std::size_t bytes = on_cpu_.nbytes();
    std::vector<Transfer> transfers;
    if (bytes <= kInlinePayload) {
      if (rank() != root && bytes > 0) std::memcpy(on_cpu_.data_ptr(), links_.said(root).payload.data(), bytes);
    } else if (rank() != root) {
      transfers.push_back(links_.receive(root, on_cpu_.data_ptr(), bytes));
    } else {
      send_to_all(transfers);
    }
    for (const Transfer& transfer : transfers) links_.wait(transfer);
  }

  void gather(Task& task) {
    std::vector<Transfer> transfers;
    if (on_cpu_.nbytes() > kInlinePayload) send_to_all(transfers);
    task.gathered.resize(static_cast<std::size_t>(size()));
    for (int each = 0; each < size(); ++each) {
      const PeerMessage& said = links_.said(each);
      const std::int64_t count = said.announcement.posting.count;
      at::Tensor& theirs = task.gathered[static_cast<std::size_t>(each)];
      if (!theirs.defined()) theirs = at::empty({count}, on_cpu_.options());
      TANDEM_CHECK(theirs.numel() == count, "rank ", each, " shares ", count, " elements, expected ", theirs.numel());
      const std::size_t bytes = theirs.nbytes();
      if (bytes == 0) continue;
      if (each == rank() && theirs.const_data_ptr() == on_cpu_.const_data_ptr()) continue;
      if (each == rank()) {
        std::memcpy(theirs.data_ptr(), on_cpu_.data_ptr(), bytes);
      } else if (bytes <= kInlinePayload) {
        std::memcpy(theirs.data_ptr(), said.payload.data(), bytes);
      } else {
        transfers.push_back(links_.receive(each, theirs.data_ptr(), bytes));
      }
    }
    for (const Transfer& transfer : transfers) links_.wait(transfer);
  }

  void send_to_all(std::vector<Transfer>& transfers) {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank()) transfers.push_back(links_.send(peer, on_cpu_.data_ptr(), on_cpu_.nbytes()));
    }
  }

  // Memory that transfers use comes first, so that it is there until the links are gone.
  at::Tensor on_cpu_;  // the current task's; the caller's own when that is on the CPU
  std::vector<std::byte> scratch_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Task> tasks_ TANDEM_GUARDED_BY(mutex_);  // those that are not completed
  std::uint64_t started_ TANDEM_GUARDED_BY(mutex_) = 0, executed_ TANDEM_GUARDED_BY(mutex_) = 0,
                         completed_ TANDEM_GUARDED_BY(mutex_) = 0;
  bool closed_ TANDEM_GUARDED_BY(mutex_) = false;
  bool waits_ TANDEM_GUARDED_BY(mutex_) = false, hurried_ TANDEM_GUARDED_BY(mutex_) = false;  // the member's thread
  CloseSignal failed_;
  QuestionBell questions_;
  const c10::intrusive_ptr<c10d::Backend> devices_;  // or none
  PeerLinks links_;
  Worker sender_;
};

}  // namespace

std::unique_ptr<Group> make_linked_member(LinkedMemberOptions options) {
  return std::make_unique<LinkedMember>(std::move(options));
}

}  // namespace tandem::comm
