#include "tandem/sync/variables/token_protocol.h"

#include <algorithm>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/text.h"

namespace tandem::sync {
TokenProtocol::TokenProtocol(int workers, const SyncReplicasOptions& options)
    : aggregate_(options.replicas_to_aggregate.value_or(workers)),
      total_(options.total_num_replicas.value_or(workers)),
      tokens_(options.tokens),
      acceptance_(options.acceptance),
      seats_(static_cast<std::size_t>(workers)) {
  require_none(faults_of(options, workers));
  if (tokens_ == Tokens::kShared)
    queue_.assign(static_cast<std::size_t>(options.initial_tokens.value_or(aggregate_)), 0);
}

// --- membership -----------------------------------------------------------------------------------------------------

// With shared tokens the first gradient of a worker needs no token from the queue: as in TensorFlow, workers begin to
// compute before they have asked for one.
void TokenProtocol::join(int worker) {
  Seat& it = seat(worker);
  TANDEM_CHECK(it.place == Place::kAway, "worker ", worker, " joins, and is there");
  has_ended_ = false;
  it.place = Place::kReady;
  it.has_own_left = true;
  if (tokens_ == Tokens::kOwn) return;
  it.place = Place::kComputing;
  it.token = step_;
}

void TokenProtocol::leave(int worker) {
  go_away(worker);
  has_ended_ = std::all_of(seats_.begin(), seats_.end(), [](const Seat& each) { return each.place == Place::kAway; });
  settle();
}

void TokenProtocol::die(int worker) {
  go_away(worker);
  settle();
}

// A token that the worker held goes back, so that the others are not short of it.
void TokenProtocol::go_away(int worker) {
  Seat& it = seat(worker);
  TANDEM_CHECK(it.place != Place::kAway, "worker ", worker, " goes, and is not there");
  give_back(it);
  it.place = Place::kAway;
  end_rest();
}

void TokenProtocol::rest(int worker) {
  Seat& it = seat(worker);
  TANDEM_CHECK(it.place != Place::kAway, "worker ", worker, " rests, and is not there");
  give_back(it);
  it.place = Place::kResting;
  if (working() > 0) {
    settle();
  } else {
    end_rest();
  }
}

// A worker that joins while others rest is waited for like all others. When all rest, each gets a token at once, since
// the others may wait, outside of this protocol, for something that a worker does after it has one. If that makes more
// gradients than the step takes, some come late.
void TokenProtocol::end_rest() {
  if (working() > 0) return;
  int rested = 0;
  for (Seat& each : seats_) {
    if (each.place != Place::kResting) continue;
    each.place = Place::kReady;
    each.has_own_left = true;
    ++rested;
  }
  if (tokens_ == Tokens::kOwn) return;
  while (queued() < rested) queue_.push_back(step_);
}

// With shared tokens the token goes back to the front of the queue, old as it may be. A worker's own token of the open
// step is its own again; one of a step that is over is worth nothing.
void TokenProtocol::give_back(Seat& it) {
  if (it.place != Place::kComputing) return;
  it.place = Place::kReady;
  if (tokens_ == Tokens::kShared) {
    queue_.push_front(it.token);
  } else if (it.token == step_ && it.held == Held::kOwn) {
    it.has_own_left = true;
  }
}

// --- going on elsewhere ---------------------------------------------------------------------------------------------

TokenProtocol::Record TokenProtocol::record() const {
  Record record{.step = step_ + (is_taken_ ? 1 : 0), .seats = {}};
  for (const Seat& each : seats_) record.seats.push_back({each.totals, each.place == Place::kAway ? 0 : 1});
  for (const GradientId& each : taken_) ++record.seats[static_cast<std::size_t>(each.worker)].totals.applied;
  return record;
}

void TokenProtocol::restore(const Record& record) {
  TANDEM_CHECK(record.seats.size() == seats_.size(), "a record of ", record.seats.size(), " workers for ",
               seats_.size());
  set_step(record.step);
  for (std::size_t worker = 0; worker < seats_.size(); ++worker) {
    seats_[worker].totals = record.seats[worker].totals;
    seats_[worker].sequence = seats_[worker].totals.offered;
  }
}

// The worker and the record each know the first gradients of one sequence, so the larger of two counts holds.
void TokenProtocol::recall(int worker, std::int64_t offered, std::int64_t dropped) {
  Seat& it = seat(worker);
  GradientTotals& totals = it.totals;
  totals.offered = it.sequence = std::max(totals.offered, offered);
  totals.dropped = std::max(totals.dropped, dropped);
  TANDEM_CHECK(totals.in_flight() >= 0, "worker ", worker, " recalls ", offered, " gradients, ", dropped,
               " of them dropped, and ", totals.applied, " were applied");
}

// --- a worker's turn ------------------------------------------------------------------------------------------------

std::optional<std::int64_t> TokenProtocol::take_token(int worker) {
  Seat& it = seat(worker);
  TANDEM_CHECK(it.place == Place::kReady || it.place == Place::kResting, "worker ", worker, " has a token, or is away");
  if (it.place == Place::kResting) return std::nullopt;
  if (tokens_ == Tokens::kShared) {
    if (queue_.empty()) return std::nullopt;
    it.token = queue_.front();
    queue_.pop_front();
  } else {
    if (is_taken_ || may_take()) return std::nullopt;  // the step is complete, the next not open
    if (!it.has_own_left && !lacks_tokens()) return std::nullopt;
    it.held = it.has_own_left ? Held::kOwn : Held::kOther;
    it.has_own_left = false;
    it.token = step_;
  }
  it.place = Place::kComputing;
  return it.token;
}

// Whether the quorum needs tokens beyond the workers' own: the accepted gradients, those being computed, and one for
// each own token that is left are fewer than the quorum.
bool TokenProtocol::lacks_tokens() const {
  auto coming = static_cast<int>(accepted_.size());
  for (const Seat& each : seats_) {
    if (each.place == Place::kComputing && each.token == step_) ++coming;
    // A token of an older step is being spent; the own one of this step comes after it.
    const bool works = each.place == Place::kReady || each.place == Place::kComputing;
    if (works && each.has_own_left) ++coming;
  }
  return coming < quorum();
}

TokenProtocol::Judgement TokenProtocol::offer(int worker) {
  Seat& it = seat(worker);
  TANDEM_CHECK(it.place == Place::kComputing, "worker ", worker, " offers a gradient without a token");
  // A whole step is made of the first gradients that came. Further ones are late, though nobody has taken the first
  // yet.
  const bool is_closed = is_taken_ || (acceptance_ == Acceptance::kWhole && may_take());
  const std::int64_t open = step_ + (is_closed ? 1 : 0);
  TANDEM_CHECK(it.token <= open, "worker ", worker, " has a token of step ", it.token, ", and step ", open, " is open");
  const Judgement judgement{.id = {.worker = worker, .sequence = it.sequence++},
                            .is_accepted = it.token == open,
                            .step = open,
                            .staleness = open - it.token};
  it.place = Place::kReady;
  ++it.totals.offered;
  if (judgement.is_accepted)
    accepted_.push_back(judgement.id);
  else
    ++it.totals.dropped;
  settle();
  return judgement;
}

// --- the coordinator's turn -----------------------------------------------------------------------------------------

// Where workers give several gradients anyway, those that work give those of the others, too.
int TokenProtocol::quorum() const { return aggregate_ > total_ ? aggregate_ : std::min(aggregate_, working()); }

// A step that has its quorum is complete and stays so, though a worker may join, and raise the quorum, before it is
// taken.
void TokenProtocol::settle() {
  if (is_taken_ || accepted_.empty()) return;
  if (has_ended_ || (working() > 0 && std::ssize(accepted_) >= quorum())) is_complete_ = true;
}

std::vector<GradientId> TokenProtocol::take() {
  TANDEM_CHECK(may_take(), "step ", step_, " lacks gradients, or was taken");
  is_complete_ = false;
  is_taken_ = true;
  taken_ = std::exchange(accepted_, {});
  return taken_;
}

void TokenProtocol::advance() {
  TANDEM_CHECK(is_taken_, "step ", step_, " was not taken");
  for (const GradientId& each : taken_) ++seat(each.worker).totals.applied;
  taken_.clear();
  is_taken_ = false;
  ++step_;
  for (Seat& each : seats_) each.has_own_left = true;
  if (tokens_ == Tokens::kShared)
    queue_.insert(queue_.end(), static_cast<std::size_t>(std::max(total_, aggregate_)), step_);
}

void TokenProtocol::set_step(std::int64_t step) {
  TANDEM_CHECK(working() + count(Place::kResting) == 0, "the step is set to ", step, " while workers are there");
  TANDEM_CHECK(step >= step_, "the step is set back from ", step_, " to ", step);
  step_ = step;
  for (std::int64_t& token : queue_) token = step;
}

std::vector<int> TokenProtocol::missing() const {
  std::vector<int> missing;
  for (int worker = 0; worker < workers(); ++worker) {
    const bool works = seat(worker).place == Place::kReady || seat(worker).place == Place::kComputing;
    const bool has_given = std::any_of(accepted_.begin(), accepted_.end(),
                                       [worker](const GradientId& each) { return each.worker == worker; });
    if (works && !has_given) missing.push_back(worker);
  }
  return missing;
}

std::string TokenProtocol::describe() const {
  std::string text = concat("step ", step_,
                            is_taken_      ? " is being made"
                            : is_complete_ ? " is complete"
                                           : " is open",
                            " with ", accepted_.size(), " of ", quorum(), " gradients");
  for (int worker = 0; worker < workers(); ++worker) {
    const Seat& it = seat(worker);
    text += concat("; worker ", worker);
    if (it.place == Place::kAway) text += " is away";
    if (it.place == Place::kReady) text += " waits for a token";
    if (it.place == Place::kResting) text += " waits for all others";
    if (it.place == Place::kComputing)
      text += concat(" computes for step ", it.token, it.held == Held::kOther ? ", once more" : "");
    if (it.place != Place::kAway && it.has_own_left) text += ", and has a token left";
  }
  for (const std::int64_t token : queue_) text += concat("; a token of step ", token);
  return text + (has_ended_ ? "; all have left" : "");
}

int TokenProtocol::count(Place place) const {
  return static_cast<int>(
      std::count_if(seats_.begin(), seats_.end(), [place](const Seat& each) { return each.place == place; }));
}

}  // namespace tandem::sync
