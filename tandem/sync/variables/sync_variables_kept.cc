// What SyncVariables has for a second process that keeps them, and goes on when the first one dies.
#include <algorithm>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/sync/variables/sync_variables.h"

namespace tandem::sync {

// --- in the owner's process -----------------------------------------------------------------------------------------

void SyncVariables::keep_elsewhere(KeptElsewhere* elsewhere) {
  const MutexLock lock(mutex_);
  elsewhere_ = elsewhere;
}

void SyncVariables::show_whole(
    const std::function<void(const KeptRecord&, const std::vector<at::Tensor>& state)>& show) {
  const MutexLock lock(mutex_);
  require_whole();
  show(record(1, 1), state());
}

KeptRecord SyncVariables::record(double scale, double lr_factor) {
  TokenProtocol::Record record = protocol_->record();
  KeptRecord kept{.step = record.step,
                  .learning_rate = home_.optimizer().learning_rate(),
                  .scale = scale,
                  .lr_factor = lr_factor,
                  .seats = {}};
  for (std::size_t i = 0; i < record.seats.size(); ++i)
    kept.seats.push_back({.record = record.seats[i], .applied = applied_[i], .outcome = outcomes_[i]});
  return kept;
}

// --- where they are kept --------------------------------------------------------------------------------------------

void SyncVariables::adopt(const KeptRecord& record, const ReadState& write) {
  const MutexLock lock(mutex_);
  write(state());
  home_.optimizer().state_changed();
  home_.optimizer().set_learning_rate(record.learning_rate);
  kept_ = record;
}

void SyncVariables::follow(const KeptRecord& record, const model::FlatParameters::Gradients& sums) {
  const MutexLock lock(mutex_);
  TANDEM_CHECK(record.step == kept_.step + 1, "step ", record.step, " is to be kept, and step ", kept_.step,
               " is what was");
  home_.optimizer().set_learning_rate(record.learning_rate);
  home_.optimizer().step(sums, record.scale, record.lr_factor);
  if (averages_) averages_->update(home_.parameters().buffers());
  kept_ = record;
}

// Another that lives and was not present has left, and waits for the others' end: it reads the last state from here.
void SyncVariables::take_over(int mine, const std::set<int>& others) {
  const MutexLock lock(mutex_);
  TokenProtocol::Record record{.step = kept_.step, .seats = {}};
  for (const KeptSeat& each : kept_.seats) record.seats.push_back(each.record);
  protocol_.emplace(workers_, options_);
  protocol_->restore(record);
  accumulator_ = make_accumulator(options_.acceptance, options_.sparse_mean, home_.parameters());
  accumulator_->set_step(kept_.step);
  factors_.clear();
  rows_ = 0;
  sizes_ = {};
  newest_.clear();
  for (std::size_t i = 0; i < kept_.seats.size(); ++i) {
    const int replica = static_cast<int>(i);
    outcomes_[i] = kept_.seats[i].outcome;
    applied_[i] = kept_.seats[i].applied;
    if (replica != mine && !others.contains(replica)) continue;
    if (kept_.seats[i].record.is_present != 0)
      protocol_->join(replica);
    else if (replica != mine)
      expect_reader(replica);
  }
}

// What it offered last may be in the step that the owner made last, or dropped, without having been told so.
Outcome SyncVariables::recall(int replica, const Recalled& told) {
  const MutexLock lock(mutex_);
  require_whole();
  const GradientTotals known = protocol_->totals(replica);
  const auto& accepted = protocol_->accepted();
  const GradientId last{.worker = replica, .sequence = told.offered - 1};
  protocol_->recall(replica, told.offered, told.dropped);
  Outcome fate{.verdict = Verdict::kLost, .step = protocol_->step(), .part_of = protocol_->step() + 1};
  fate.gradients = std::ssize(accepted);
  if (!told.is_unanswered) return fate;
  if (applied_[static_cast<std::size_t>(replica)] == last.sequence) return outcomes_[static_cast<std::size_t>(replica)];
  if (std::find(accepted.begin(), accepted.end(), last) != accepted.end()) fate.verdict = Verdict::kAccepted;
  if (known.offered >= told.offered && known.dropped > told.dropped) {
    fate.verdict = Verdict::kDropped;
    fate.staleness = 1;  // at least
  }
  return fate;
}

}  // namespace tandem::sync
