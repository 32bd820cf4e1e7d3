#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/concurrency/poll_until.h"
#include "tandem/sync/variables/succession.h"

namespace tandem::sync {
namespace {

// Plan: every call goes to the owner. When the owner is lost, find() asks all replicas in turn where the variables are,
// connects to the first that has them, and tells it what this replica knows of its gradients (recall). Calls that
// change nothing by being made twice are then made again; an offer is not, for the new owner has said what became of
// it. All of this happens on the replica's thread, within the limits of the call.
class FollowingLink final : public VariableLink {
 public:
  FollowingLink(Succession& succession, Replica& replica, const Limits& limits)
      : succession_(succession), replica_(replica) {
    link_ = link_to(owner_, limits);
  }

  StepReport exchange(const Offer& offer, const model::FlatParameters::Gradients* gradients,
                      const Limits& limits) override {
    ++told_.offered;
    told_.is_unanswered = true;
    StepReport report;
    try {
      report = link_->exchange(offer, gradients, limits);
    } catch (const PeerLost& lost) {
      if (!is_owner(lost)) throw;
      report = go_on(limits);
    }
    told_.is_unanswered = false;
    if (report.verdict == Verdict::kDropped) ++told_.dropped;
    return report;
  }

  void rest(const Limits& limits) override {
    insist(limits, [&] { link_->rest(limits); });
  }
  std::int64_t resume(const Limits& limits) override {
    std::int64_t step = 0;
    insist(limits, [&] { step = link_->resume(limits); });
    return step;
  }
  void leave(const Limits& limits) override {
    insist(limits, [&] { link_->leave(limits); });
  }
  void depart(const std::vector<at::Tensor>& state, const Limits& limits) override {
    insist(limits, [&] { link_->depart(state, limits); });
  }
  std::optional<StepReport> recall(const Recalled& told, const Limits& limits) override {
    return link_->recall(told, limits);
  }
  void abort(const std::string& why) override { link_->abort(why); }

 private:
  [[nodiscard]] bool is_owner(const PeerLost& lost) const {
    return lost.peer() == owner_ && owner_ != replica_.placement().replica;
  }

  // Asks, and asks again wherever the variables are by then, until an owner has answered.
  template <typename Ask>
  void insist(const Limits& limits, const Ask& ask) {
    for (;;) {
      try {
        ask();
        return;
      } catch (const PeerLost& lost) {
        if (!is_owner(lost)) throw;
      }
      (void)find(limits);
    }
  }

  // Returns what became of the gradient that was under way. The replica then has a token and the values to go on with.
  StepReport go_on(const Limits& limits) {
    for (;;) {
      StepReport fate = find(limits);
      try {
        fate.step = link_->resume(limits);
        return fate;
      } catch (const PeerLost& lost) {
        if (!is_owner(lost)) throw;
      }
    }
  }

  // Connects to the new owner and returns what became of the last gradient. While the others are asked, a replica may
  // become the standby and its owner die, so only two rounds in a row without an answer prove that nobody has the
  // variables. A replica that is silent counts as undecided, since it may have them.
  StepReport find(const Limits& limits) {
    std::set<int> dead;
    for (int rounds_without = 0; rounds_without < 2;) {
      ++rounds_without;
      for (int replica = 0; replica < succession_.size(); ++replica) {
        if (dead.contains(replica)) continue;
        std::optional<VariableRequest> place = kUndecided;
        try {
          place = succession_.ask_where(replica, to_answer(limits));
        } catch (const DeadlineExceeded&) {  // NOLINT(bugprone-empty-catch): it is silent, so nothing is decided
        }
        if (place == kHere) {
          if (const std::optional<StepReport> fate = recall_from(replica, limits)) return *fate;
        }
        if (!place) dead.insert(replica);
        if (place == kHere || place == kUndecided) rounds_without = 0;
      }
      wait_a_little(limits);
    }
    throw PeerLost(owner_, concat(name(), " has lost the owner of the variables, replica ", owner_,
                                  ", and finds none that has taken over: its standby has died, too; go on from ",
                                  "the last checkpoint"));
  }

  static Limits to_answer(const Limits& limits) {
    return {.deadline = Deadline::after(std::min(Succession::kToConnect, limits.deadline.remaining())),
            .stop = limits.stop};
  }

  // A millisecond between two rounds: a standby hears of its owner's death at about the same time as this replica.
  void wait_a_little(const Limits& limits) const {
    if (limits.stop.stop_requested()) throw GroupAborted(concat(name(), " looked for the variables, and was stopped"));
    if (limits.deadline.expired()) {
      throw DeadlineExceeded(concat(name(), " looked for the variables until the deadline: replica ", owner_,
                                    ", which had them, is lost, and nobody has taken over; likely its standby, or who ",
                                    "has them now, is stopped or behind a cut network"));
    }
    pause(std::chrono::milliseconds(1), limits);
  }

  // Takes the replica's variables as the new ones; nothing when they are no longer there.
  std::optional<StepReport> recall_from(int replica, const Limits& limits) {
    auto link = if_there([&] { return link_to(replica, limits); });
    if (!link) return std::nullopt;  // it has died since it answered
    try {
      std::optional<StepReport> fate = (*link)->recall(told_, limits);
      if (!fate) return std::nullopt;
      link_ = *std::move(link);
      owner_ = replica;
      return fate;
    } catch (const PeerLost& lost) {
      if (lost.peer() != replica) throw;
      return std::nullopt;
    }
  }

  [[nodiscard]] std::unique_ptr<VariableLink> link_to(int replica, const Limits& limits) const {
    const std::shared_ptr<VariableService> here = succession_.variables_here(replica);
    return here ? link_within(here, replica_) : link_across(succession_.address(replica), replica_, limits);
  }

  [[nodiscard]] std::string name() const { return concat("replica ", replica_.placement().replica); }

  Succession& succession_;
  Replica& replica_;
  int owner_ = 0;  // the replica that has the variables, as far as this one knows
  std::unique_ptr<VariableLink> link_;
  Recalled told_;  // what this replica has offered, and heard of it, since it began
};

}  // namespace

std::unique_ptr<VariableLink> link_that_follows(Succession& succession, Replica& replica, const Limits& limits) {
  return std::make_unique<FollowingLink>(succession, replica, limits);
}

}  // namespace tandem::sync
