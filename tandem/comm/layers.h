// comm/layers.h: the two groups of a member of a layered group, tied to each other: what closes one closes the other.
// Internal to comm/layered_group.cc and comm/carrier.cc.
//
// Threads: operations on one at a time; abort(), expire(), on_close() and on_question() from any.
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

/// How many members each inner group of a layered group has, and the ranks that follow from it.
class InnerSizes {
 public:
  /// Not known yet.
  InnerSizes() = default;
  explicit InnerSizes(std::vector<int> sizes);

  [[nodiscard]] int parts() const { return static_cast<int>(sizes_.size()); }
  [[nodiscard]] int of(int part) const { return sizes_[static_cast<std::size_t>(part)]; }
  [[nodiscard]] int largest() const;
  /// Members of all parts.
  [[nodiscard]] int all() const { return begins_.empty() ? 0 : begins_.back(); }
  /// The first rank of a part; while nothing is known, the part itself.
  [[nodiscard]] int begin(int part) const { return begins_.empty() ? part : begins_[static_cast<std::size_t>(part)]; }
  /// The part that has the rank.
  [[nodiscard]] int part_of(int rank) const;

  /// Before a message of a part, or of the parts' leaders, which counts their ranks from 0.
  [[nodiscard]] std::string describe(int part) const;
  [[nodiscard]] std::string describe_all() const;

 private:
  std::vector<int> sizes_, begins_;
};

// Note [Who is missing may only be waiting]
// A member of an inner group that does not come keeps its own group waiting, which names it; through that the leaders
// of other groups wait for its leader, and their members for them. Whoever came first has the earliest deadline, and
// would name somebody who is only waiting himself. So who waits for a leader asks him first. A leader who is asked and
// waits in his other group lets that wait expire, at once: he names who is missing there, or asks on in turn, and the
// end of his groups ends that of who asked. Only a leader who is in no wait, or does not answer because he is stopped,
// is named. The leaders give each other one kAnswer, and the members their leader two for each layer outside.
inline constexpr std::chrono::milliseconds kAnswer{500};

class Layers {
 public:
  Layers(std::unique_ptr<Group> inner, std::shared_ptr<Group> outer, int layers_outside, Names names);
  /// Neither group's end is told any more.
  ~Layers();
  Layers(const Layers&) = delete;
  Layers& operator=(const Layers&) = delete;

  [[nodiscard]] Group& inner() const { return *inner_; }
  /// The leader's place among the leaders; others may have none.
  [[nodiscard]] Group* outer() const { return outer_.get(); }
  [[nodiscard]] bool leads() const { return inner_->rank() == 0; }
  /// Once they are known: of all inner groups, and which of them this is.
  void set_sizes(InnerSizes sizes, int mine);
  [[nodiscard]] const InnerSizes& sizes() const { return sizes_; }
  [[nodiscard]] int mine() const { return mine_; }

  /// What this member does.
  enum class Phase { kNothing, kInside, kBetween, kFromLeader };
  /// The limits of a wait in that phase, with time to answer for those it waits for.
  [[nodiscard]] Limits asking(Phase phase, const Limits& limits = {}) const;

  /// Runs an operation of the inner group, which all its members do, or, of the leaders only, of the outer one. What it
  /// throws closes both groups, since nobody would come to what the others wait for; it is thrown on as the same kind
  /// of error, with ranks counted over all groups.
  using Operation = std::function<void(Group& group, const Limits& limits)>;
  void inside(const Limits& limits, const Operation& operation) { run(Phase::kInside, limits, operation); }
  void from_leader(const Limits& limits, const Operation& operation) {
    run(Phase::kFromLeader, asking(Phase::kFromLeader, limits), operation);
  }
  void between(const Limits& limits, const Operation& operation) {
    if (leads()) run(Phase::kBetween, asking(Phase::kBetween, limits), operation);
  }

  void abort(const std::string& why);
  void expire();
  void on_close(Listeners::OnClose listener) { listeners_.on_close(std::move(listener)); }
  void on_question(Listeners::OnQuestion listener) { listeners_.on_question(std::move(listener)); }

 private:
  void run(Phase phase, const Limits& limits, const Operation& operation);
  void register_listeners();
  void on_question_inside();
  void on_question_between();
  [[nodiscard]] std::string prefix_of(Phase phase) const;
  [[nodiscard]] int rank_of(Phase phase, int place) const;

  const Names names_;
  const std::unique_ptr<Group> inner_;
  const std::shared_ptr<Group> outer_;
  const int layers_outside_;
  InnerSizes sizes_;
  int mine_ = 0;
  std::atomic<Phase> phase_{Phase::kNothing};
  Listeners listeners_;  // of those who wait for this member in another layer
};

}  // namespace tandem::comm
