// sync/counted_group.h: a group as its member sees it, with a count of the bytes that this member hands to collectives,
// whoever calls them: a sum of buckets, or a compression of the user's.
//
// Threads, blocking and errors: those of the group behind it.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/comm/group.h"

namespace tandem::sync {

class CountedGroup final : public comm::Group {
 public:
  /// `group` is not owned.
  explicit CountedGroup(comm::Group& group) : group_(group) { set_survival(group.survival()); }

  /// Bytes since the last call: of this member's tensors in sums and gathers, of a broadcast on its root, of the parts
  /// that the member owns. Nothing where it is the only member.
  std::int64_t take_bytes() { return std::exchange(bytes_, 0); }

  [[nodiscard]] int rank() const override { return group_.rank(); }
  [[nodiscard]] int size() const override { return group_.size(); }
  [[nodiscard]] Range subtree(Range shards) const override { return group_.subtree(shards); }
  [[nodiscard]] bool goes_on_alone() const override { return group_.goes_on_alone(); }
  [[nodiscard]] at::Tensor allocate(std::int64_t count, at::ScalarType dtype, at::Device device) override {
    return group_.allocate(count, dtype, device);
  }
  comm::Pending start_all_reduce(const at::Tensor& flat) override {
    count(flat.nbytes());
    return group_.start_all_reduce(flat);
  }
  void broadcast(const at::Tensor& flat, int root, const Limits& limits) override {
    if (root == rank()) count(flat.nbytes());
    group_.broadcast(flat, root, limits);
  }
  [[nodiscard]] std::vector<at::Tensor> all_gather(const at::Tensor& mine, const Limits& limits) override {
    count(mine.nbytes());
    return group_.all_gather(mine, limits);
  }
  void all_gather(std::span<const double> mine, std::span<double> all, const Limits& limits) override {
    count(mine.size_bytes());
    group_.all_gather(mine, all, limits);
  }
  void share_parts(const at::Tensor& flat, std::span<const comm::OwnedPart> parts, const Limits& limits) override {
    for (const comm::OwnedPart& part : parts)
      if (part.owner == rank()) count(static_cast<std::size_t>(part.end - part.begin) * flat.element_size());
    group_.share_parts(flat, parts, limits);
  }
  void barrier(const Limits& limits) override { group_.barrier(limits); }
  bool abort(const std::string& why) override { return group_.abort(why); }
  bool fail(const std::string& why) override { return group_.fail(why); }
  void expire() override { group_.expire(); }
  [[nodiscard]] comm::Listening on_close(std::function<void(const std::string& why)> listener) override {
    return group_.on_close(std::move(listener));
  }
  void on_question(std::function<void()> listener) override { group_.on_question(std::move(listener)); }

 protected:
  // A Pending that start_all_reduce() returns waits in the group behind.
  void finish(std::uint64_t ticket, const Limits& /*limits*/) override {
    TANDEM_CHECK(false, "a wait for sum ", ticket, " in a group that only counts");
  }

 private:
  void count(std::size_t bytes) {
    if (size() > 1) bytes_ += static_cast<std::int64_t>(bytes);
  }

  comm::Group& group_;
  std::int64_t bytes_ = 0;
};

}  // namespace tandem::sync
