// comm/layers.h: the two groups of a member of a layered group, joined so that whatever closes one closes the other.
// Internal to comm/layered_group.cc and comm/carrier.cc.
//
// Threads: operations by one thread at a time; abort(), expire(), on_close() and on_question() from any thread.
// Blocking: inside(), between() and from_leader() as the operation does. Errors: those of the operation; both groups
// are closed then.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tandem/comm/layered_group.h"
#include "tandem/comm/listeners.h"

namespace tandem::comm {

/// How many members each inner group of a layered group has, and the ranks that follow from it. A "part" is the number
/// of an inner group, in the order of the leaders.
///
/// Threads: immutable.
class InnerSizes {
 public:
  /// The sizes are not known yet: the group is being made.
  InnerSizes() = default;
  explicit InnerSizes(std::vector<int> sizes);

  [[nodiscard]] int parts() const { return static_cast<int>(sizes_.size()); }
  /// The members of one part.
  [[nodiscard]] int of(int part) const { return sizes_[static_cast<std::size_t>(part)]; }
  /// The members of the largest part.
  [[nodiscard]] int largest() const;
  /// The members of all parts together.
  [[nodiscard]] int all() const { return begins_.empty() ? 0 : begins_.back(); }
  /// The rank of a part's leader; while the sizes are not known, the number of the part.
  [[nodiscard]] int begin(int part) const { return begins_.empty() ? part : begins_[static_cast<std::size_t>(part)]; }
  /// The part that has the rank.
  [[nodiscard]] int part_of(int rank) const;

  /// Prefixes for messages of one part, and of the group of leaders. These groups count their ranks from 0.
  [[nodiscard]] std::string describe(int part) const;
  [[nodiscard]] std::string describe_all() const;

 private:
  std::vector<int> sizes_, begins_;
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
  Layers(const Layers&) = delete;
  Layers& operator=(const Layers&) = delete;

  /// This member of its inner group.
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
  void abort(const std::string& why);
  void expire();
  void on_close(Listeners::OnClose listener) { listeners_.on_close(std::move(listener)); }
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
};

}  // namespace tandem::comm
