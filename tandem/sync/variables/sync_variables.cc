#include "tandem/sync/variables/sync_variables.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"

namespace tandem::sync {
namespace {

// The updates that the optimizer has made: the largest count of any parameter. Step counts are the only whole numbers
// of an optimizer's state.
std::int64_t updates_of(const model::Optimizer& optimizer) {
  std::int64_t most = 0;
  for (const auto& [name, tensor] : optimizer.state()) {
    if (tensor.scalar_type() != at::kLong || tensor.numel() == 0) continue;
    most = std::max(most, tensor.max().item<std::int64_t>());
  }
  return most;
}

}  // namespace

SyncVariables::SyncVariables(Replica& like, SyncReplicasOptions options)
    : VariableService(like), options_(std::move(options)) {
  load(like);
}

// All replicas are present before any of them steps. The count of steps is never set back: it goes on from this
// object's own, or from what the optimizer's state tells of steps that another process has made.
void SyncVariables::start_anew(Replica& from) {
  const std::int64_t step = std::max(protocol_ ? protocol_->step() : 0, updates_of(optimizer_));
  protocol_.emplace(replicas_, options_);
  protocol_->set_step(step);
  for (int worker = 0; worker < replicas_; ++worker) protocol_->join(worker);
  averages_.reset();
  if (options_.average_decay) averages_.emplace(from.parameters(), *options_.average_decay, options_.average_of);
  seats_.assign(static_cast<std::size_t>(replicas_), {});
  gather_anew();
}

void SyncVariables::gather_anew() {
  accumulator_ = make_accumulator(options_.acceptance, options_.sparse_mean, parameters_);
  factors_.clear();
  rows_ = 0;
  sizes_ = {};
  newest_.clear();
}

// --- a replica's turn -----------------------------------------------------------------------------------------------

// Offers the gradient, which may complete a step, waits for a token of the replica, and reads. Until the replica goes
// on, its gradient stays where it is: give_back() copies what no step has taken by then.
void SyncVariables::exchange(const Offer& offer, const model::FlatParameters::Gradients* gradients,
                             const Limits& limits, const Read& read) {
  TANDEM_CHECK(gradients != nullptr, "replica ", offer.replica, " offers no gradient; its quorum would wait for ever");
  StepReport report;
  act_and_settle([&]() TANDEM_REQUIRES(mutex_) { report = offer_gradient(offer, *gradients); });
  const MutexLock lock(mutex_);
  try {
    await_token(offer.replica, limits);
  } catch (...) {
    accumulator_->give_back(offer.replica);
    throw;
  }
  accumulator_->give_back(offer.replica);
  // The step for which the gradient was accepted may have been made by now.
  if (report.verdict == Verdict::kAccepted && protocol_->step() > report.step)
    report = seats_[static_cast<std::size_t>(offer.replica)].report;
  report.step = protocol_->step();
  read(report, values_);
}

// Adds the gradient to those of the open step, or drops it.
StepReport SyncVariables::offer_gradient(const Offer& offer, const model::FlatParameters::Gradients& gradients) {
  require_present(offer.replica);
  const TokenProtocol::Judgement judgement = protocol_->offer(offer.replica);
  const StepReport report{.verdict = judgement.is_accepted ? Verdict::kAccepted : Verdict::kDropped,
                          .step = judgement.step,
                          .staleness = judgement.staleness,
                          .part_of = judgement.step + 1,
                          .gradients = std::ssize(protocol_->accepted())};
  if (!judgement.is_accepted) return report;
  accumulator_->add({.id = judgement.id, .factor = offer.scale, .tally = offer.tally, .gradients = gradients});
  optimizer_.set_learning_rate(offer.learning_rate);
  factors_.push_back(offer.lr_factor);
  rows_ += offer.tally.weight;
  return report;
}

void SyncVariables::rest(int replica) {
  act_and_settle([&]() TANDEM_REQUIRES(mutex_) { protocol_->rest(replica); });
}

void SyncVariables::leave(int replica) {
  act_and_settle([&]() TANDEM_REQUIRES(mutex_) {
    if (protocol_->is_present(replica)) protocol_->leave(replica);
  });
}

void SyncVariables::resume(int replica, const Limits& limits, const Read& read) {
  const MutexLock lock(mutex_);
  require_whole();
  require_alive(replica, limits);
  if (!protocol_->is_present(replica)) protocol_->join(replica);
  if (!protocol_->has_token(replica)) await_token(replica, limits);
  read({.step = protocol_->step()}, values_);
}

// A failure of the step is announced without the lock, since telling others takes it, and then thrown to this caller,
// too.
void SyncVariables::act_and_settle(const std::function<void()>& act) {
  std::exception_ptr broken;
  {
    const MutexLock lock(mutex_);
    require_whole();
    act();
    try {
      make_step();
    } catch (...) {
      broken = std::current_exception();
    }
  }
  if (broken) fail(broken);
  tell_all();
  if (broken) std::rethrow_exception(broken);
}

// Under OnDeath::kGoOn a death is a change of the quorum like any other, which may complete a step.
void SyncVariables::lose(int replica, const std::exception_ptr& why) {
  if (options_.on_death == OnDeath::kEnd) {
    VariableService::lose(replica, why);
    return;
  }
  let_go(replica);
  try {
    act_and_settle([&]() TANDEM_REQUIRES(mutex_) {
      if (protocol_->is_present(replica)) protocol_->die(replica);
    });
  } catch (...) {  // NOLINT(bugprone-empty-catch): the run has failed, and all are told
  }
}

void SyncVariables::require_present(int replica) const {
  if (protocol_->is_present(replica)) return;
  throw PeerLost(replica,
                 concat("replica ", replica, " offers a gradient or waits for a step, and is taken for dead, or",
                        " has left; resume() brings it back"));
}

// The wait ends with a token, or when the replica is taken for dead.
void SyncVariables::await_token(int replica, const Limits& limits) {
  const auto who = [&]() TANDEM_REQUIRES(mutex_) {
    const std::vector<int> missing = protocol_->missing();
    return concat("replica ", replica, " waited for the next step: step ", protocol_->step(), " has ",
                  protocol_->accepted().size(), " of ", protocol_->quorum(), " gradients and lacks those of ",
                  missing.empty() ? "nobody who is there" : "replica " + joined(missing));
  };
  bool has_token = false;
  const auto is_over = [&]() TANDEM_REQUIRES(mutex_) {
    if (!protocol_->is_present(replica)) return true;
    return has_token = has_token || protocol_->take_token(replica);
  };
  wait_for(is_over, who, limits);
  require_present(replica);
}

// --- the step -------------------------------------------------------------------------------------------------------

// In this order: the gradients are taken, which closes the step to others; their mean is formed; all that a second
// process has to know is written down; the update is made here and there; and tokens of the next step are given out
// (advance()).
void SyncVariables::make_step() {
  if (!protocol_->may_take()) return;
  const std::int64_t step = protocol_->step();
  newest_ = protocol_->take();
  const auto [sums, tally] = accumulator_->take();
  require_rows(tally, step);
  MeanGradient mean = mean_of(
      {.gradients = sums, .parameters = parameters_, .tally = tally, .scale = scale_of(tally, options_.mean.divisor)},
      options_.mean, step);
  // The factor of the learning rate as it was given, where all gave the same one: their mean may be rounded.
  const std::vector<double> factors = std::exchange(factors_, {});
  if (std::all_of(factors.begin(), factors.end(), [&](double each) { return each == factors.front(); }))
    mean.lr_factor = factors.front();
  if (options_.rate_scaling == RateScaling::kByGradients)
    mean.lr_factor *= static_cast<double>(newest_.size()) / options_.replicas_to_aggregate.value_or(replicas_);
  StepReport report = mean.report_of(step + 1);
  report.part_of = step + 1;
  report.gradients = std::ssize(newest_);
  for (const GradientId& each : newest_) {
    KeptSeat& seat = seats_[static_cast<std::size_t>(each.worker)];
    seat.report = report;
    seat.applied = each.sequence;
  }
  update(mean, sums);
  const auto gradients = static_cast<double>(report.gradients);
  const double rows = std::exchange(rows_, 0);
  sizes_.add({.steps = 1, .gradients = {gradients, gradients, gradients}, .rows = {rows, rows, rows}});
  protocol_->advance();
}

// The update is made here and, where another process keeps the variables, there at the same time.
void SyncVariables::update(const MeanGradient& mean, const model::FlatParameters::Gradients& sums) {
  const auto here = [&]() TANDEM_REQUIRES(mutex_) {
    optimizer_.step(sums, mean.scale, mean.lr_factor);
    if (averages_) averages_->update(parameters_.buffers());
  };
  if (!elsewhere_) return here();
  elsewhere_(record(mean.scale, mean.lr_factor), sums, here, [this]() TANDEM_REQUIRES(mutex_) { return state(); });
}

// --- what became of it ----------------------------------------------------------------------------------------------

model::NamedTensors SyncVariables::averages() const {
  const MutexLock lock(mutex_);
  model::NamedTensors copies;
  if (!averages_) return copies;
  for (const auto& [name, average] : averages_->averages()) copies.emplace_back(name, average.clone());
  return copies;
}

GradientAccount SyncVariables::take_account() {
  const MutexLock lock(mutex_);
  GradientAccount account{.replicas = {}, .sizes = std::exchange(sizes_, {})};
  for (int worker = 0; worker < replicas_; ++worker) account.replicas.push_back(protocol_->totals(worker));
  return account;
}

std::vector<GradientId> SyncVariables::newest() const {
  const MutexLock lock(mutex_);
  return newest_;
}

// --- kept by a second process: in the owner's process ---------------------------------------------------------------

void SyncVariables::keep_elsewhere(MakeStep elsewhere) {
  const MutexLock lock(mutex_);
  elsewhere_ = std::move(elsewhere);
}

void SyncVariables::show_whole(
    const std::function<void(const KeptRecord&, const std::vector<at::Tensor>& state)>& show) {
  const MutexLock lock(mutex_);
  require_whole();
  show(record(1, 1), state());
}

// Everything but tensors that a second process needs to make this step and to go on after it.
KeptRecord SyncVariables::record(double scale, double lr_factor) {
  const TokenProtocol::Record record = protocol_->record();
  KeptRecord kept{
      {.step = record.step, .learning_rate = optimizer_.learning_rate(), .scale = scale, .lr_factor = lr_factor},
      seats_};
  for (std::size_t i = 0; i < kept.seats.size(); ++i) kept.seats[i].record = record.seats[i];
  return kept;
}

// --- where they are kept --------------------------------------------------------------------------------------------

void SyncVariables::adopt(const KeptRecord& record, const ReadState& write) {
  const MutexLock lock(mutex_);
  write(state());
  optimizer_.state_changed();
  optimizer_.set_learning_rate(record.learning_rate);
  kept_ = record;
}

// Makes the owner's update with the owner's numbers, so that the bits are the same.
void SyncVariables::follow(const KeptRecord& record, const model::FlatParameters::Gradients& sums) {
  const MutexLock lock(mutex_);
  TANDEM_CHECK(record.step == kept_.step + 1, "step ", record.step, " is to be kept, and step ", kept_.step,
               " is what was");
  optimizer_.set_learning_rate(record.learning_rate);
  optimizer_.step(sums, record.scale, record.lr_factor);
  if (averages_) averages_->update(parameters_.buffers());
  kept_ = record;
}

// A replica that lives and was not present in the record has left the run and waits for the others' end: it will read
// the last state from here.
void SyncVariables::take_over(int mine, const std::set<int>& others) {
  const MutexLock lock(mutex_);
  TokenProtocol::Record record{.step = kept_.step, .seats = {}};
  for (const KeptSeat& each : kept_.seats) record.seats.push_back(each.record);
  protocol_.emplace(replicas_, options_);
  protocol_->restore(record);
  gather_anew();
  seats_ = kept_.seats;
  for (int replica = 0; replica < replicas_; ++replica) {
    if (replica != mine && !others.contains(replica)) continue;
    if (seats_[static_cast<std::size_t>(replica)].record.is_present != 0)
      protocol_->join(replica);
    else if (replica != mine)
      expect_reader(replica);
  }
}

// The replica's last gradient may be part of the step that the owner made last, or may have been dropped, without the
// replica having been told so. In that order: what the record says was applied, what is accepted here, what was
// dropped; otherwise it is lost.
StepReport SyncVariables::recall(int replica, const Recalled& told) {
  const MutexLock lock(mutex_);
  require_whole();
  const GradientTotals known = protocol_->totals(replica);
  const auto& accepted = protocol_->accepted();
  const GradientId last{.worker = replica, .sequence = told.offered - 1};
  protocol_->recall(replica, told.offered, told.dropped);
  StepReport fate{.verdict = Verdict::kLost, .step = protocol_->step(), .part_of = protocol_->step() + 1};
  fate.gradients = std::ssize(accepted);
  if (!told.is_unanswered) return fate;
  const KeptSeat& seat = seats_[static_cast<std::size_t>(replica)];
  if (seat.applied == last.sequence) return seat.report;
  if (std::find(accepted.begin(), accepted.end(), last) != accepted.end()) fate.verdict = Verdict::kAccepted;
  if (known.offered >= told.offered && known.dropped > told.dropped) {
    fate.verdict = Verdict::kDropped;
    fate.staleness = 1;  // at least
  }
  return fate;
}

}  // namespace tandem::sync
