// comm/testing/forwarding_group.h: a member of a group that hands everything on to another; tests replace single
// operations.
//
// Threads: as the other.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tandem/comm/group.h"

namespace tandem::comm {

class ForwardingGroup : public Group {
 public:
  explicit ForwardingGroup(std::unique_ptr<Group> group) : group_(std::move(group)) {}

  [[nodiscard]] int rank() const override { return group_->rank(); }
  [[nodiscard]] int size() const override { return group_->size(); }
  [[nodiscard]] at::Tensor allocate(std::int64_t count, at::ScalarType dtype, at::Device device) override {
    return group_->allocate(count, dtype, device);
  }
  Pending start_all_reduce(const at::Tensor& flat) override {
    pending_.push_back(group_->start_all_reduce(flat));
    return {*this, next_++};
  }
  void broadcast(const at::Tensor& flat, int root, const Limits& limits) override {
    group_->broadcast(flat, root, limits);
  }
  [[nodiscard]] std::vector<at::Tensor> all_gather(const at::Tensor& mine, const Limits& limits) override {
    return group_->all_gather(mine, limits);
  }
  void all_gather(std::span<const double> mine, std::span<double> all, const Limits& limits) override {
    group_->all_gather(mine, all, limits);
  }
  void share_parts(const at::Tensor& flat, std::span<const OwnedPart> parts, const Limits& limits) override {
    group_->share_parts(flat, parts, limits);
  }
  void barrier(const Limits& limits) override { group_->barrier(limits); }
  bool abort(const std::string& why) override { return group_->abort(why); }
  bool fail(const std::string& why) override { return group_->fail(why); }
  void expire() override { group_->expire(); }
  [[nodiscard]] Listening on_close(std::function<void(const std::string& why)> listener) override {
    return group_->on_close(std::move(listener));
  }
  void on_question(std::function<void()> listener) override { group_->on_question(std::move(listener)); }

 protected:
  void finish(std::uint64_t ticket, const Limits& limits) override { pending_[ticket].wait(limits); }

 private:
  const std::unique_ptr<Group> group_;
  std::vector<Pending> pending_;  // by ticket
  std::uint64_t next_ = 0;
};

}  // namespace tandem::comm
