#include "tandem/comm/host_group.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstring>
#include <deque>

#include "tandem/base/check.h"
#include "tandem/comm/listeners.h"
#include "tandem/comm/tree_reduce.h"
#include "tandem/shm/member.h"

namespace tandem::comm {
namespace {

// HostMember turns tensors into the untyped arrays that shm::Member works on: it copies tensors of other devices to
// this host, chooses the loop that sums the dtype, and shapes what was gathered. Order, waits and failures are shm's.

shm::Element element_of(at::ScalarType dtype) {
  return {.name = c10::toString(dtype), .bytes = c10::elementSize(dtype), .sum = tree_reduce_of(dtype)};
}

class HostMember final : public Group {
 public:
  explicit HostMember(const shm::MeetingOptions& options)
      : member_(
            shm::meet(options), [this](const std::string& why) { listeners_.close(why); },
            [this] { listeners_.ask(); }) {}

  [[nodiscard]] int rank() const override { return member_.rank(); }
  [[nodiscard]] int size() const override { return member_.size(); }

  [[nodiscard]] at::Tensor allocate(std::int64_t count, at::ScalarType dtype, at::Device device) override {
    if (!device.is_cpu()) return Group::allocate(count, dtype, device);
    const std::shared_ptr<std::byte> memory =
        member_.allocate(static_cast<std::uint64_t>(count) * c10::elementSize(dtype));
    return at::from_blob(
        memory.get(), {count}, [memory](void*) {}, at::TensorOptions().dtype(dtype));
  }

  Pending start_all_reduce(const at::Tensor& flat) override {
    require_summable(flat);
    const at::Tensor on_cpu = on_this_host(flat);
    const std::uint64_t ticket =
        member_.start_all_reduce(on_cpu.data_ptr(), on_cpu.numel(), element_of(on_cpu.scalar_type()));
    started_.push_back({flat, on_cpu});
    return {*this, ticket};
  }

  void broadcast(const at::Tensor& flat, int root, const Limits& limits) override {
    require_broadcast(flat, root);
    const at::Tensor on_cpu = on_this_host(flat);
    member_.broadcast(on_cpu.data_ptr(), on_cpu.numel(), element_of(on_cpu.scalar_type()), root, limits);
    if (rank() != root) give_back(flat, on_cpu);
  }

  // A rank tells the others the number of its elements alone; the first dimension follows from the elements of a row,
  // which are the same on all ranks.
  [[nodiscard]] std::vector<at::Tensor> all_gather(const at::Tensor& mine, const Limits& limits) override {
    const at::Tensor on_cpu = on_this_host(mine.contiguous());
    std::vector<std::int64_t> shape = mine.sizes().vec();
    const std::int64_t row = c10::size_from_dim_(1, mine.sizes());
    std::vector<at::Tensor> all;
    const auto copy = [&](int, const void* data, std::int64_t count) {
      if (!shape.empty()) shape.front() = row == 0 ? 0 : count / row;
      at::Tensor theirs = at::empty(shape, on_cpu.options());
      TANDEM_CHECK(theirs.numel() == count, "a tensor of ", count, " elements among those of ", row, " a row");
      if (count > 0) std::memcpy(theirs.data_ptr(), data, theirs.nbytes());
      all.push_back(theirs.to(mine.device()));
    };
    member_.all_gather(on_cpu.data_ptr(), on_cpu.numel(), element_of(on_cpu.scalar_type()),
                       shm::Member::Sizes::kMayDiffer, copy, limits);
    return all;
  }

  void all_gather(std::span<const double> mine, std::span<double> all, const Limits& limits) override {
    require_room(mine, all);
    const auto visit = [&](int rank, const void* data, std::int64_t) {
      if (mine.empty()) return;
      std::memcpy(all.data() + static_cast<std::size_t>(rank) * mine.size(), data, mine.size_bytes());
    };
    member_.all_gather(mine.data(), std::ssize(mine), element_of(at::kDouble), shm::Member::Sizes::kEqual, visit,
                       limits);
  }

  // Gathers the parts that each rank owns, one after the other, and copies the others' from shared memory to their
  // places.
  void share_parts(const at::Tensor& flat, std::span<const OwnedPart> parts, const Limits& limits) override {
    require_flat(flat, "shares parts of");
    const at::Tensor mine = on_this_host(packed(flat, parts, rank()));
    const auto put = [&](int rank, const void* data, std::int64_t count) {
      if (rank == this->rank() || count == 0) return;
      unpack(at::from_blob(const_cast<void*>(data), {count}, mine.options()), flat, parts, rank);
    };
    member_.all_gather(mine.data_ptr(), mine.numel(), element_of(mine.scalar_type()), shm::Member::Sizes::kMayDiffer,
                       put, limits);
  }

  void barrier(const Limits& limits) override { member_.barrier(limits); }

  bool abort(const std::string& why) override { return member_.abort(why); }
  bool fail(const std::string& why) override { return member_.fail(why); }
  void expire() override { member_.expire(); }
  [[nodiscard]] Listening on_close(std::function<void(const std::string&)> listener) override {
    return listeners_.on_close(std::move(listener));
  }
  void on_question(std::function<void()> listener) override { listeners_.on_question(std::move(listener)); }

 protected:
  void finish(std::uint64_t ticket, const Limits& limits) override {
    member_.finish_all_reduce(ticket, limits);
    const Started done = std::move(started_.front());
    started_.pop_front();
    give_back(done.flat, done.on_cpu);
  }

 private:
  struct Started {
    at::Tensor flat, on_cpu;  // one and the same tensor if it is on the CPU
  };

  // Copies a device's tensor to this host; returns a CPU tensor as it is.
  static at::Tensor on_this_host(const at::Tensor& tensor) {
    const at::NoGradGuard no_grad;
    return tensor.is_cpu() ? tensor : tensor.cpu();
  }
  static void give_back(const at::Tensor& tensor, const at::Tensor& on_cpu) {
    const at::NoGradGuard no_grad;
    if (!tensor.is_cpu()) at::Tensor(tensor).copy_(on_cpu);
  }

  Listeners listeners_;
  shm::Member member_;
  std::deque<Started> started_;  // in the order of their tickets
};

}  // namespace

std::unique_ptr<Group> make_host_group(const shm::MeetingOptions& options) {
  return std::make_unique<HostMember>(options);
}

}  // namespace tandem::comm
