#include "tandem/sync/following_link.h"

#include <algorithm>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::sync {
namespace {

class FollowingLink final : public VariableLink {
 public:
  FollowingLink(Succession& succession, Replica& replica, const Limits& limits)
      : succession_(succession), replica_(replica) {
    link_ = succession.me() == owner_ ? link_within(succession.variables(), replica)
                                      : link_across(succession.address(owner_), replica, limits);
  }

  Outcome exchange(const Offer& offer, const model::FlatParameters::Gradients* gradients,
                   const Limits& limits) override {
    ++told_.offered;
    told_.is_unanswered = true;
    Outcome outcome;
    try {
      outcome = link_->exchange(offer, gradients, limits);
    } catch (const PeerLost& lost) {
      if (!is_owner(lost)) throw;
      outcome = go_on(limits);
    }
    told_.is_unanswered = false;
    if (outcome.verdict == Verdict::kDropped) ++told_.dropped;
    return outcome;
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
  std::optional<Outcome> recall(const Recalled& told, const Limits& limits) override {
    return link_->recall(told, limits);
  }
  void abort(const std::string& why) override { link_->abort(why); }

 private:
  [[nodiscard]] bool is_owner(const PeerLost& lost) const {
    return lost.peer() == owner_ && owner_ != succession_.me();
  }

  // Asks again wherever the variables are by then.
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

  // What became of the gradient that was under way; the replica then has a token and the values to go on with.
  Outcome go_on(const Limits& limits) {
    for (;;) {
      Outcome fate = find(limits);
      try {
        fate.step = link_->resume(limits);
        return fate;
      } catch (const PeerLost& lost) {
        if (!is_owner(lost)) throw;
      }
    }
  }

  // Here last: who is the standby of an owner that lives, since another has died, asks there before it waits here.
  Outcome find(const Limits& limits) {
    for (int process = 0; process < succession_.size(); ++process) {
      if (process == succession_.me()) continue;
      if (const std::optional<Outcome> fate = ask(process, limits)) return *fate;
    }
    if (const std::optional<Outcome> fate = ask_here(limits)) return *fate;
    throw PeerLost(owner_, concat("replica ", replica_.placement().replica, " has lost the owner of the variables,",
                                  " replica ", owner_, ", and finds no process that has taken over: its standby has",
                                  " died, too; go on from the last checkpoint"));
  }

  std::optional<Outcome> ask_here(const Limits& limits) {
    if (!succession_.await_here(limits)) return std::nullopt;
    link_ = link_within(succession_.variables(), replica_);
    owner_ = succession_.me();
    return link_->recall(told_, limits);
  }

  // Nothing where the variables are not, nor will be.
  std::optional<Outcome> ask(int other, const Limits& limits) {
    const Limits soon{.deadline = Deadline::after(std::min(Succession::kToConnect, limits.deadline.remaining())),
                      .stop = limits.stop};
    std::unique_ptr<VariableLink> link;
    try {
      link = link_across(succession_.address(other), replica_, soon);
    } catch (const GroupAborted&) {
      throw;
    } catch (const RunError&) {
      return std::nullopt;
    }
    try {
      std::optional<Outcome> fate = link->recall(told_, limits);
      if (!fate) return std::nullopt;
      link_ = std::move(link);
      owner_ = other;
      return fate;
    } catch (const PeerLost& lost) {
      if (lost.peer() != other) throw;
      return std::nullopt;
    }
  }

  Succession& succession_;
  Replica& replica_;
  int owner_ = 0;
  std::unique_ptr<VariableLink> link_;
  Recalled told_;
};

}  // namespace

std::unique_ptr<VariableLink> link_that_follows(Succession& succession, Replica& replica, const Limits& limits) {
  return std::make_unique<FollowingLink>(succession, replica, limits);
}

}  // namespace tandem::sync
