// comm/group.h: a process group in the sense of MPI, NCCL and c10d: members that call collectives together. A Group
// object is one member's view of it. The members are threads (local_group.h), processes of a host (host_group.h),
// processes on a network (links/network_group.h), or groups themselves (layered_group.h).
//
// Sums go along the recursive-halving tree over the members (base/summation_tree.h) and every member receives the same
// bits. So a group whose members hold whole subtrees of the shards gives the same sums as any other topology.
//
// These are the operations that a group has to offer, fast and for one kind of tensor. A program of one's own is better
// served by collectives.h, which takes any tensor.
//
// All members call the same collectives in the same order. When one member calls another collective at the same place,
// or the same collective with another size, all members throw RunError; its message names both calls.
//
// Threads: each member belongs to one thread; abort(), expire(), on_close() and on_question() may be called from any.
// Ownership: the caller keeps the memory of a tensor alive and unchanged until the collective has returned.
// Blocking: every operation but start_all_reduce() waits for the other members until `limits`. It throws
// DeadlineExceeded, which names the missing members, PeerLost when a member died or left, or GroupAborted. After any
// throw the group cannot be used any more, and the operation's output is undefined. ConfigError for a tensor that a
// collective cannot take comes before anything is exchanged; the group stays as it was.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tandem/base/summation_tree.h"
#include "tandem/comm/listening.h"
#include "tandem/comm/owned_parts.h"
#include "tandem/concurrency/limits.h"
#include "tandem/net/sockets.h"

namespace tandem::comm {

class Group;

/// A collective that was started, like MPI_Request or c10d's Work. The member waits for its collectives in the order in
/// which it started them; another order is a ConfigError. The group must outlive it.
class [[nodiscard]] Pending {
 public:
  Pending(Group& group, std::uint64_t ticket) : group_(&group), ticket_(ticket) {}
  /// Returns when the result is in place on this member and its memory may be written again.
  void wait(const Limits& limits);

 private:
  Group* group_;
  std::uint64_t ticket_;
};

/// What becomes of the others when a member dies.
struct Survival {
  /// Says why a member cannot count on surviving: the launcher ends all processes then (store/launcher_environment.h).
  /// Empty where members survive.
  std::string why_none = {};
  /// Called by who goes on without those that die, once all have begun: a launcher then replaces a dead one alone, and
  /// does not start all again. It may ask the store. Empty where nobody wants to know.
  std::function<void()> say_they_go_on = {};
};

class Group {
 public:
  virtual ~Group() = default;

  /// This member's place, from 0 to size() - 1.
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  /// The shards of this member when `shards` are divided along the tree by which this group sums. Throws ConfigError
  /// when there are fewer shards than members.
  [[nodiscard]] virtual Range subtree(Range shards) const { return subtree_of(shards, size(), rank()); }

  /// Whether started collectives make progress while the member's thread does something else. If false, all work is
  /// done in Pending::wait(), and starting a collective early gains nothing.
  [[nodiscard]] virtual bool goes_on_alone() const { return false; }

  /// Set before the group is used.
  [[nodiscard]] const Survival& survival() const { return survival_; }
  void set_survival(Survival survival) { survival_ = std::move(survival); }

  /// Whether connections that members make beside the group, over a network, are to be encrypted
  /// (WorldOptions::traffic). Set before the group is used.
  [[nodiscard]] net::Traffic traffic() const { return traffic_; }
  void set_traffic(net::Traffic traffic) { traffic_ = traffic; }

  /// Returns a zeroed flat tensor on `device`, in memory from which collectives are cheapest: shared memory where the
  /// group has some. Waits for nobody. The memory lives as long as the tensor, also beyond the group.
  [[nodiscard]] virtual at::Tensor allocate(std::int64_t count, at::ScalarType dtype, at::Device device) {
    return at::zeros({count}, at::TensorOptions().dtype(dtype).device(device));
  }

  /// Replaces `flat` by its sum over the members. `flat` is contiguous, one-dimensional and equally long on all
  /// members. Does not block; the caller neither reads nor writes `flat` until the wait has returned.
  virtual Pending start_all_reduce(const at::Tensor& flat) = 0;

  /// Copies the contiguous tensor `flat` of member `root` into that of all other members.
  virtual void broadcast(const at::Tensor& flat, int root, const Limits& limits) = 0;

  /// Returns the tensors of all members, by rank. Their first dimensions may differ; the other dimensions and the dtype
  /// must be the same on all members.
  [[nodiscard]] virtual std::vector<at::Tensor> all_gather(const at::Tensor& mine, const Limits& limits) = 0;
  /// Gathers a few numbers of each member into `all`, by rank. `all` has size() times as many entries as `mine`, whose
  /// length is the same on all members.
  virtual void all_gather(std::span<const double> mine, std::span<double> all, const Limits& limits) = 0;

  /// Copies each part of `flat` from its owner to all other members, in place: an all-gather of unequal parts. `flat`
  /// is contiguous, one-dimensional and equally long on all members. `parts` are the same on all members and do not
  /// overlap. Elements outside of all parts stay as they are.
  virtual void share_parts(const at::Tensor& flat, std::span<const OwnedPart> parts, const Limits& limits) = 0;

  /// Returns when all members have called it.
  virtual void barrier(const Limits& limits) = 0;

  /// Makes all members' operations, present and future, throw GroupAborted with `why`, unless a failure has closed the
  /// group before. Returns whether this call closed it. Does not wait.
  virtual bool abort(const std::string& why) = 0;
  /// Leaves the group in order, for a member that ends by a failure of its own: those that still need it throw
  /// PeerLost, which says `why` ("left by an exception: ..."). Returns whether the group was open. This member calls
  /// nothing more. Where members are threads it does nothing: who runs them ends them.
  virtual bool fail(const std::string& /*why*/) { return false; }

  /// Lets the wait that this member is in now expire, as if its deadline had passed; does nothing if the member is in
  /// no wait. A wait that has just begun may miss the call, so the caller repeats it until the wait has ended. Does not
  /// wait.
  virtual void expire() = 0;

  /// Registers `listener`, which is called once with the reason when a failure closes the group, or now if a failure
  /// has closed it already. The call comes on any thread, also on one that is in abort(), and whatever this member does
  /// meanwhile; the listener must not wait. A member may have several, which are called in the order of registration.
  [[nodiscard]] virtual Listening on_close(std::function<void(const std::string& why)> listener) = 0;

  /// Registers `listener`, which is called whenever another member's deadline has passed while that member waits for
  /// this one and its Limits::answer leaves time for an answer. If this member only waits itself, in another group, the
  /// listener lets that wait expire; the resulting error names the member that keeps all waiting. The call comes on any
  /// thread; the listener must not wait. A member has one such listener: a new one replaces it, and an empty one
  /// removes it. The earlier listener is not running any more when this returns.
  virtual void on_question(std::function<void()> listener) = 0;

 protected:
  friend class Pending;
  /// Waits for the collective that start_all_reduce() returned as `ticket`.
  virtual void finish(std::uint64_t ticket, const Limits& limits) = 0;

  /// Throw ConfigError, before anything is exchanged, for what a collective cannot take, and name the function of
  /// collectives.h that does.
  static void require_flat(const at::Tensor& flat, const char* does);
  static void require_summable(const at::Tensor& flat);
  void require_broadcast(const at::Tensor& flat, int root) const;
  void require_room(std::span<const double> mine, std::span<const double> all) const;
  /// Throws ConfigError when a collective is waited for before one that was started earlier.
  static void require_order(bool in_order);

 private:
  Survival survival_;
  net::Traffic traffic_ = net::Traffic::kOpen;
};

inline void Pending::wait(const Limits& limits) { group_->finish(ticket_, limits); }

}  // namespace tandem::comm
