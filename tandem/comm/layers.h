// comm/layers.h: the two groups of a member of a layered group, joined so that whatever closes one closes the other,
// and the thread that sums in both while the member does something else. Internal to comm/layered_group.cc.
//
// Threads: operations by one thread at a time; abort(), expire(), on_close() and on_question() from any thread.
// Blocking: inside(), between() and from_leader() as the operation does. Errors: those of the operation; both groups
// are closed then.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tandem/base/mutex.h"
#include "tandem/comm/layered_group.h"
#include "tandem/comm/listeners.h"
#include "tandem/concurrency/worker.h"

namespace tandem::comm {

/// How many members each inner group of a layered group has, and the ranks that follow from it. A "part" is the number
/// of an inner group, in the order of the leaders.
///
/// Threads: immutable.
class InnerSizes {
 public:
  /// The sizes are not known yet: the group is being made.
  InnerSizes() = default;
  explicit InnerSizes(const std::vector<int>& sizes) : begins_{0} {
    for (const int size : sizes) begins_.push_back(begins_.back() + size);
  }

  [[nodiscard]] int parts() const { return static_cast<int>(begins_.size()) - 1; }
  /// The members of all parts together.
  [[nodiscard]] int all() const { return begins_.empty() ? 0 : begins_.back(); }
  /// The rank of a part's leader; while the sizes are not known, the number of the part.
  [[nodiscard]] int begin(int part) const { return begins_.empty() ? part : begins_[static_cast<std::size_t>(part)]; }
  [[nodiscard]] int part_of(int rank) const;

  /// Prefixes for messages of one part, and of the group of leaders. These groups count their ranks from 0.
  [[nodiscard]] std::string describe(int part) const;
  [[nodiscard]] std::string describe_all() const;

 private:
  std::vector<int> begins_;  // by part, and the end of the last one; empty while the sizes are not known
};

// Note [Who is missing may only be waiting]
// A member that does not come keeps its inner group waiting, and through its leader all leaders and their groups. The
// member that came first has the earliest deadline, and it may be in another group: it would blame its leader, which
// only waits itself. So a member whose deadline has passed asks those it waits for:
//   1. The member asks its leader (on_question()).
//   2. A leader that waits in its other group lets that wait expire at once. The expired wait names the member that is
//      missing there, or asks the next leader in the same way.
//   3. The error closes all groups, and so ends the wait of the member that asked.
//   4. A leader that is in no wait, or that does not answer since its process is stopped, is named itself.
// Leaders give each other one kAnswer for an answer; members give their leader two for each layer outside of theirs.
inline constexpr std::chrono::milliseconds kAnswer{500};

class Layers {
 public:
  Layers(std::unique_ptr<Group> inner, std::shared_ptr<Group> outer, int layers_outside, Names names);
  /// `layers_outside`: how many layered groups are outside of the inner group, this one among them. Registers its
  /// listeners with both groups. The destructor removes them.
  ~Layers();

  [[nodiscard]] Group& inner() const { return *inner_; }
  /// This inner group's member of the group of leaders; null on most members that do not lead.
  [[nodiscard]] Group* outer() const { return outer_.get(); }
  [[nodiscard]] bool leads() const { return inner_->rank() == 0; }
  /// Sets the sizes of all inner groups, and which of them this member is in.
  void set_sizes(InnerSizes sizes, int mine);
  [[nodiscard]] const InnerSizes& sizes() const { return sizes_; }
  [[nodiscard]] int mine() const { return mine_; }

  /// The step that this member is in: no operation, one of its inner group, one of the leaders, or one of its inner
  /// group that waits for the leader.
  enum class Phase { kNothing, kInside, kBetween, kFromLeader };
  /// `limits` with the time that the awaited members have to answer in that phase.
  [[nodiscard]] Limits asking(Phase phase, const Limits& limits = {}) const;

  /// Run an operation: inside() and from_leader() on the inner group, by all of its members; between() on the outer
  /// group, by the leaders only. What the operation throws closes both groups, since this member will not come to what
  /// the others wait for. It is thrown on as the same kind of error, with ranks counted over all groups.
  using Operation = std::function<void(Group& group, const Limits& limits)>;
  void inside(const Limits& limits, const Operation& operation) { run(Phase::kInside, limits, operation); }
  void from_leader(const Limits& limits, const Operation& operation) {
    run(Phase::kFromLeader, asking(Phase::kFromLeader, limits), operation);
  }
  void between(const Limits& limits, const Operation& operation) {
    if (leads()) run(Phase::kBetween, asking(Phase::kBetween, limits), operation);
  }

  /// As those of Group, for both groups together.
  bool abort(const std::string& why);
  bool fail(const std::string& why);
  void expire();
  Listening on_close(Listeners::OnClose listener) { return listeners_.on_close(std::move(listener)); }
  void on_question(Listeners::OnQuestion listener) { listeners_.on_question(std::move(listener)); }

 private:
  // Runs an operation of the group that belongs to `phase`.
  void run(Phase phase, const Limits& limits, const Operation& operation);
  void register_listeners();
  void on_question_inside();
  void on_question_between();
  // The text before messages of the group that is used in `phase`; empty if that group names ranks of the run.
  [[nodiscard]] std::string prefix_of(Phase phase) const;
  [[nodiscard]] int rank_of(Phase phase, int place) const;

  const Names names_;
  const std::unique_ptr<Group> inner_;
  const std::shared_ptr<Group> outer_;
  const int layers_outside_;
  InnerSizes sizes_;
  int mine_ = 0;                               // the part that this member is in
  std::atomic<Phase> phase_{Phase::kNothing};  // written by the operating thread, read by listeners on any
  Listeners listeners_;  // registered by a layered group of which this one is an inner or the outer group
  Listening inner_closing_, outer_closing_;
};

/// The thread that carries on the all_reduces of a layered group's member while the member's own thread does something
/// else: the sum inside, the sum between the leaders, and the broadcast of its result inside. The thread of each member
/// repeats these steps:
///   1. The leader broadcasts inside how many all_reduces it has started by now.
///   2. All members of the inner group sum these, one after the other; the leader starts the sum between the leaders of
///      each.
///   3. The leader waits until the oldest sum between the leaders is complete.
///   4. Step 1 and 2 again, so that the network is busy during the next step.
///   5. The leader broadcasts the oldest result inside.
/// So all members do the same operations inside in the same order, whichever member starts its all_reduces first. While
/// no all_reduce is under way the thread uses neither group: a member that has waited for all of its own may use them.
///
/// Threads: start(), wait() and all_waited() belong to the member. Blocking: wait(). Its caller brings the limits; when
/// they end the wait, the groups are closed. The destructor closes them if collectives are under way.
class Carrier {
 public:
  /// `layers` is not owned.
  explicit Carrier(Layers& layers);
  ~Carrier();

  /// Starts to replace `flat` by its sum over all members, and returns a ticket for wait(). Throws the failure that
  /// ended an earlier all_reduce.
  std::uint64_t start(const at::Tensor& flat);
  /// Whether this is the first of the started ones that was not waited for.
  [[nodiscard]] bool is_next(std::uint64_t ticket) const {
    const MutexLock lock(mutex_);
    return ticket == waited_ && ticket < started_;
  }
  /// Returns when the result is in place. Only for a ticket that is_next().
  void wait(std::uint64_t ticket, const Limits& limits);
  /// Whether the member has waited for all that it started.
  [[nodiscard]] bool all_waited() const {
    const MutexLock lock(mutex_);
    return waited_ == started_;
  }

 private:
  struct Started {
    at::Tensor flat;
    std::unique_ptr<c10::Event> ready;  // recorded on the member's stream after it wrote `flat`; null on the CPU
  };
  // An all_reduce that is summed inside and whose result has not been broadcast.
  struct Carried {
    at::Tensor flat;
    std::optional<Pending> between;  // the sum between the leaders; on the leader only
  };
  // Waits until `ticket` is done or the limits end the wait; throws the failure that ended the thread.
  WaitOutcome await_done(std::uint64_t ticket, const std::stop_token& stop, const Deadline& deadline);
  // The thread's body and its steps, as listed above.
  void carry_all(const std::stop_token& stop);
  bool sum_started(Layers::Phase phase, const std::stop_token& stop);
  void hand_round_first();
  std::optional<at::Tensor> await_started(std::uint64_t ticket, const std::stop_token& stop);

  Layers& layers_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Started> under_way_ TANDEM_GUARDED_BY(mutex_);  // from done_ to started_
  std::uint64_t started_ TANDEM_GUARDED_BY(mutex_) = 0, done_ TANDEM_GUARDED_BY(mutex_) = 0,
                         waited_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::exception_ptr failure_ TANDEM_GUARDED_BY(mutex_);
  std::deque<Carried> carried_;  // tickets done_ to summed_ - 1; this and summed_ belong to the carrier's thread
  std::uint64_t summed_ = 0;     // how many all_reduces are summed inside
  Worker worker_;                // last: it uses the others
};

}  // namespace tandem::comm
