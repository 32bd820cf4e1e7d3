// comm/group.h: the members that do collectives together, seen from one of them.
//
// Sums go along the recursive-halving tree over the members (base/summation_tree.h) and every member receives the same
// bits, so a group whose members hold whole subtrees of shards gives the sums of any other topology.
//
// All members call the same operations in the same order. A member that calls another operation, or one of another
// size, at the same place makes all members throw RunError naming both.
//
// Threads: each member belongs to one thread; abort(), expire(), on_close() and on_question() may be called from any.
// Blocking: every operation but start_*() waits for the others until `limits`; it throws DeadlineExceeded naming the
// missing members, PeerLost when one died or left, or GroupAborted. After any throw the group is of no further use and
// what the operation wrote to is garbage.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/check.h"
#include "tandem/base/summation_tree.h"
#include "tandem/comm/owned_parts.h"
#include "tandem/concurrency/limits.h"

namespace tandem::comm {

class Group;

/// A collective that was started. Collectives of a group are waited for in the order of their start.
class [[nodiscard]] Pending {
 public:
  Pending(Group& group, std::uint64_t ticket) : group_(&group), ticket_(ticket) {}
  /// Returns when the result is in place on this member and its memory may be written again.
  void wait(const Limits& limits);

 private:
  Group* group_;
  std::uint64_t ticket_;
};

class Group {
 public:
  virtual ~Group() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// The shards of this member when `shards` are divided along the tree by which this group sums. Throws ConfigError
  /// when there are fewer than members.
  [[nodiscard]] virtual Range subtree(Range shards) const { return subtree_of(shards, size(), rank()); }

  /// Whether collectives that were started go on while the member's thread does something else. Where not, the work is
  /// done in the wait, and starting early gains nothing.
  [[nodiscard]] virtual bool goes_on_alone() const { return false; }

  /// Why nobody may count on outliving the death of another member, as the launcher of their processes says
  /// (launcher_environment.h); empty where they may. Set before the group is used.
  [[nodiscard]] const std::string& why_none_survive() const { return why_none_survive_; }
  void set_why_none_survive(std::string why) { why_none_survive_ = std::move(why); }

  /// Zeroed memory on `device` for collectives, where the group reaches it at the least cost.
  [[nodiscard]] virtual at::Tensor allocate(std::int64_t count, at::ScalarType dtype, at::Device device) = 0;

  /// Replaces `flat` (contiguous, one-dimensional, of equal length everywhere) by the sum over the members. Does not
  /// block; `flat` must be left alone until the wait has returned.
  virtual Pending start_all_reduce(const at::Tensor& flat) = 0;

  /// Copies the root's `flat` to all members.
  virtual void broadcast(const at::Tensor& flat, int root, const Limits& limits) = 0;

  /// The tensors of all members, in the order of their ranks; their first dimensions may differ, others and dtypes must
  /// not.
  [[nodiscard]] virtual std::vector<at::Tensor> all_gather(const at::Tensor& mine, const Limits& limits) = 0;
  /// The same for a few numbers: `all` has size() times as many entries as `mine`.
  virtual void all_gather(std::span<const double> mine, std::span<double> all, const Limits& limits) = 0;

  /// In place: every member gets the elements of each part of `flat` (contiguous, one-dimensional, of equal length
  /// everywhere) from the part's owner. `parts` are the same on all members and do not overlap; what is in none of them
  /// stays as it is.
  virtual void share_parts(const at::Tensor& flat, std::span<const OwnedPart> parts, const Limits& limits) = 0;

  virtual void barrier(const Limits& limits) = 0;

  /// Makes all members' operations, present and future, throw GroupAborted with `why`. The first reason stays.
  virtual void abort(const std::string& why) = 0;

  /// As if the deadline of the wait that this member is now in had passed; nothing if it is in none. A wait that has
  /// just begun may miss it: to be repeated until the wait has ended. Does not wait.
  virtual void expire() = 0;

  /// Calls `listener` once when a failure has closed the group, with the reason, whatever this member does meanwhile;
  /// now if that was before. On any thread, also on one that aborts; it must not wait. There is one listener: a new one
  /// takes its place, an empty one is none, and the earlier one no longer runs when this returns.
  virtual void on_close(std::function<void(const std::string& why)> listener) = 0;

  /// Calls `listener` whenever the deadline of another member has passed, it waits for this one, and its limits give
  /// time to answer: who waits for somebody else meanwhile lets that wait expire, which names who keeps all waiting. On
  /// any thread; it must not wait. A new listener takes the place of the earlier one, which no longer runs when this
  /// returns; an empty one is none.
  virtual void on_question(std::function<void()> listener) = 0;

 protected:
  friend class Pending;
  virtual void finish(std::uint64_t ticket, const Limits& limits) = 0;

  static void require_flat(const at::Tensor& flat, const char* does) {
    TANDEM_CHECK(flat.dim() == 1 && flat.is_contiguous(), "a group ", does, " flat tensors, got ", flat.dim(),
                 " dimensions");
  }
  void require_room(std::span<const double> mine, std::span<const double> all) const {
    TANDEM_CHECK(all.size() == mine.size() * static_cast<std::size_t>(size()), all.size(), " for ", size(), " x ",
                 mine.size());
  }

 private:
  std::string why_none_survive_;
};

inline void Pending::wait(const Limits& limits) { group_->finish(ticket_, limits); }

}  // namespace tandem::comm
