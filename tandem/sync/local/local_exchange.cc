#include "tandem/sync/local/local_exchange.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "tandem/base/equal_parts.h"
#include "tandem/base/error.h"
#include "tandem/base/summation_tree.h"
#include "tandem/base/text.h"
#include "tandem/comm/collectives.h"
#include "tandem/concurrency/trace.h"
#include "tandem/sync/local/rounded.h"

namespace tandem::sync {
namespace {

// Differences of narrower dtypes would lose most of their digits.
at::ScalarType wide(at::ScalarType dtype) { return dtype == at::kDouble ? at::kDouble : at::kFloat; }

double total_of(const std::vector<double>& rows) { return std::accumulate(rows.begin(), rows.end(), 0.0); }

// The sum over all replicas of share x way, along the tree; nothing of a replica without rows.
at::Tensor mean_of_rounded(const std::vector<at::Tensor>& ways, const std::vector<double>& rows, std::int64_t count,
                           Wire wire) {
  const double total = total_of(rows);
  return tree_sum(
      Range{0, static_cast<int>(ways.size())},
      [&](int member) {
        const auto at = static_cast<std::size_t>(member);
        return unrounded(ways[at], count, wire).mul_(rows[at] / total);
      },
      [](const at::Tensor& left, const at::Tensor& right) { return left.add_(right); });
}

}  // namespace

LocalExchange::LocalExchange(Replica& replica, comm::Group& group, const LocalStepsOptions& options)
    : replica_(replica),
      group_(&group),
      options_(options),
      is_alone_(group.size() == 1 && options.outer == Outer::kAverage),
      fragments_(static_cast<std::size_t>(std::max(options.fragments, 1))),
      rows_(fragments_.size()) {
  require_none(faults_of(options));
  if (!is_alone_) make_pieces();
  begin();
}

void LocalExchange::make_pieces() {
  for (std::size_t b = 0; b < replica_.parameters().buffers().size(); ++b) cut(b);
}

// Every fragment gets an equal part of each buffer.
void LocalExchange::cut(std::size_t buffer) {
  const at::NoGradGuard no_grad;
  const at::Tensor& values = replica_.parameters().buffers()[buffer].values;
  const at::ScalarType dtype = wide(values.scalar_type());
  agreed_.push_back(at::empty_like(values));
  if (options_.outer == Outer::kNesterov) momenta_.push_back(at::zeros_like(values, values.options().dtype(dtype)));
  const EqualParts parts(values.numel(), options_.fragments);
  for (int f = 0; f < options_.fragments; ++f) {
    const std::int64_t begin = parts.begin(f), count = parts.begin(f + 1) - begin;
    if (count == 0) continue;
    Piece piece;
    piece.buffer = buffer;
    piece.begin = begin;
    piece.own = values.narrow(0, begin, count);
    piece.agreed = agreed_.back().narrow(0, begin, count);
    piece.sum = group_->allocate(count, dtype, values.device());
    if (options_.overlap > 0) piece.started = at::empty_like(piece.own);
    if (!momenta_.empty()) piece.momentum = momenta_.back().narrow(0, begin, count);
    if (options_.wire != Wire::kFull) piece.rest = at::zeros({count}, values.options().dtype(at::kFloat));
    fragments_[static_cast<std::size_t>(f)].push_back(std::move(piece));
  }
}

void LocalExchange::begin() {
  const at::NoGradGuard no_grad;
  for (std::size_t b = 0; b < agreed_.size(); ++b) agreed_[b].copy_(replica_.parameters().buffers()[b].values);
  for (std::vector<Piece>& pieces : fragments_) {
    for (Piece& piece : pieces) {
      if (piece.rest.defined()) piece.rest.zero_();
    }
  }
  std::ranges::fill(rows_, 0);
  rows_in_all_ = 0;
  steps_ = begun_ = run_steps_ = over_ = 0;
  if (under_way_) {
    under_way_->over = 0;
    under_way_->is_void = true;
  }
}

model::NamedTensors LocalExchange::besides() const {
  model::NamedTensors all;
  for (std::size_t b = 0; b < momenta_.size(); ++b) all.emplace_back(concat("outer.momentum.", b), momenta_[b]);
  return all;
}

bool LocalExchange::Meeting::has(Call call) const { return std::ranges::find(calls, call) != calls.end(); }
bool LocalExchange::Meeting::all(Call call) const {
  return std::ranges::all_of(calls, [call](Call its) { return its == call; });
}

LocalExchange::Meeting LocalExchange::meet(Call mine, const Limits& limits) {
  std::vector<double> numbers{static_cast<double>(mine), rows_in_all_, wishes_ ? 1.0 : 0.0};
  const std::size_t first_rows = numbers.size();
  numbers.insert(numbers.end(), rows_.begin(), rows_.end());
  std::vector<double> all(numbers.size() * static_cast<std::size_t>(group_->size()));
  const Clock::time_point begin = Clock::now();
  group_->all_gather(numbers, all, limits);
  totals_.wait_seconds += seconds_since(begin);
  totals_.bytes += static_cast<std::int64_t>(numbers.size() * sizeof(double));
  Meeting meeting{.calls = {}, .rows = std::vector<std::vector<double>>(rows_.size())};
  double rows = 0;
  asked_ = false;
  for (std::size_t at = 0; at < all.size(); at += numbers.size()) {
    meeting.calls.push_back(static_cast<Call>(all[at]));
    rows += all[at + 1];
    asked_ = asked_ || all[at + 2] > 0;
    for (std::size_t f = 0; f < rows_.size(); ++f) meeting.rows[f].push_back(all[at + first_rows + f]);
  }
  if (rows > 0) meeting.share = rows_in_all_ / rows;
  meeting.someone_has_rows = rows > 0;
  return meeting;
}

void LocalExchange::count_step(double rows) {
  ++run_steps_;
  ++steps_;
  for (double& its : rows_) its += rows;
  rows_in_all_ += rows;
}

void LocalExchange::exchange_due(const Limits& limits) {
  if (is_alone_) return;
  if (under_way_ && steps_ >= under_way_->over) finish(limits);
  if (steps_ < next_due()) return;
  const Span span("exchange");
  start(meet(Call::kStep, limits), limits);
  if (options_.overlap == 0) finish(limits);
}

// A replica that waits here is at the same exchange as the others: each is begun by all.
bool LocalExchange::come_together(Call call, const Limits& limits) {
  if (is_alone_) return true;
  const Span span("exchange");
  finish(limits);
  const Meeting meeting = meet(call, limits);
  if (meeting.has(Call::kStep)) {
    start(meeting, limits);
    return false;
  }
  conclude(meeting, limits);
  if (call != Call::kLeave) return true;
  if (!meeting.all(Call::kLeave)) return false;
  asked_ = false;  // the run is over
  return true;
}

// The share of a replica is that of its rows.
void LocalExchange::start(const Meeting& meeting, const Limits& limits) {
  const at::NoGradGuard no_grad;
  finish(limits);
  const std::size_t fragment = static_cast<std::size_t>(begun_++) % fragments_.size();
  const double total = total_of(meeting.rows[fragment]);
  if (total == 0) {  // there is no mean, and the exchange is over
    ++over_;
    return;
  }
  under_way_.emplace(
      UnderWay{.fragment = fragment, .over = steps_ + options_.overlap, .rows = std::exchange(rows_[fragment], 0)});
  for (Piece& piece : fragments_[fragment]) {
    if (piece.started.defined()) piece.started.copy_(piece.own);
    take_way(piece);
    if (options_.wire == Wire::kFull)
      under_way_->pending.push_back(sum_up(piece.sum, under_way_->rows / total));
    else
      sum_rounded(meeting.rows[fragment], piece, limits);
  }
  ++totals_.exchanges;
}

// All sums have come before anything is changed, so that the exchange is over as a whole or not at all.
void LocalExchange::finish(const Limits& limits) {
  if (!under_way_) return;
  const at::NoGradGuard no_grad;
  const Clock::time_point begin = Clock::now();
  for (comm::Pending& pending : under_way_->pending) pending.wait(limits);
  totals_.wait_seconds += seconds_since(begin);
  if (under_way_->is_void) return undo_start();
  for (Piece& piece : fragments_[under_way_->fragment]) {
    if (piece.next_rest.defined()) piece.rest = std::exchange(piece.next_rest, {});
    move_agreed(piece);
    if (piece.started.defined())
      piece.own.add_(piece.agreed - piece.started);
    else
      piece.own.copy_(piece.agreed);
  }
  under_way_.reset();
  ++over_;
}

// As if it had not been begun.
void LocalExchange::undo_start() {
  if (!under_way_) return;
  if (!under_way_->is_void) {
    rows_[under_way_->fragment] += under_way_->rows;
    --begun_;
  }
  for (Piece& piece : fragments_[under_way_->fragment]) piece.next_rest.reset();
  under_way_.reset();
}

// Writes how far this replica has come from the agreed parameters, with what was rounded off before.
void LocalExchange::take_way(Piece& piece) const {
  piece.sum.copy_(piece.own).sub_(piece.agreed);
  if (piece.rest.defined()) piece.sum.add_(piece.rest);
  const at::Tensor finite = at::isfinite(piece.sum);
  if (finite.all().item<bool>()) return;
  const std::int64_t element = piece.begin + finite.logical_not().nonzero()[0].item<std::int64_t>();
  const std::vector<model::ParameterSlot>& slots = replica_.parameters().buffers()[piece.buffer].slots;
  const auto behind = std::ranges::upper_bound(slots, element, {}, &model::ParameterSlot::offset);
  throw RunError(concat("parameter '", std::prev(behind)->name, "' of replica ", replica_.placement().replica,
                        " is not finite after its own steps (", piece.own[element - piece.begin].item<double>(),
                        "); nothing of it was given to the others. Lower the learning rate, or clip gradients"));
}

comm::Pending LocalExchange::sum_up(const at::Tensor& sum, double share) {
  (void)sum.mul_(share);
  totals_.bytes += static_cast<std::int64_t>(sum.nbytes());
  return group_->start_all_reduce(sum);
}

// Each replica gets the rounded ways of all, and adds them in the order of the tree.
void LocalExchange::sum_rounded(const std::vector<double>& rows, Piece& piece, const Limits& limits) {
  const std::int64_t count = piece.sum.numel();
  const at::Tensor bytes = rounded(piece.sum.to(at::kFloat), options_.wire);
  piece.next_rest = piece.sum - unrounded(bytes, count, options_.wire);
  const Clock::time_point begin = Clock::now();
  const std::vector<at::Tensor> all = group_->all_gather(bytes, limits);
  totals_.wait_seconds += seconds_since(begin);
  totals_.bytes += static_cast<std::int64_t>(bytes.nbytes());
  piece.sum.copy_(mean_of_rounded(all, rows, count, options_.wire));
}

// The outer step. With D the mean way, torch's SGD with Nesterov momentum for the gradient -D.
void LocalExchange::move_agreed(Piece& piece) const {
  if (options_.outer == Outer::kAverage) {
    piece.agreed.add_(piece.sum);
    return;
  }
  piece.momentum.mul_(options_.outer_momentum).add_(piece.sum);
  piece.agreed.add_(piece.sum.add_(piece.momentum, options_.outer_momentum), options_.outer_lr);
}

// All fragments in full. As in finish(), sums first; moments and buffers are the last thing that may fail.
void LocalExchange::conclude(const Meeting& meeting, const Limits& limits) {
  const bool settles = meeting.has(Call::kSettle) || meeting.has(Call::kLeave);
  const auto total = [&](std::size_t fragment) { return total_of(meeting.rows[fragment]); };
  const bool has_steps = std::ranges::any_of(meeting.rows, [](const auto& rows) { return total_of(rows) > 0; });
  if (!has_steps && !(settles && meeting.someone_has_rows)) return;
  const at::NoGradGuard no_grad;
  for (std::size_t f = 0; f < fragments_.size(); ++f) {
    for (Piece& piece : fragments_[f]) {
      if (total(f) == 0) break;
      take_way(piece);
      sum_up(piece.sum, rows_[f] / total(f)).wait(limits);
    }
  }
  average_buffers(meeting.share, limits);
  if (settles) average_moments(meeting.share, limits);
  for (std::size_t f = 0; f < fragments_.size(); ++f) {
    for (Piece& piece : fragments_[f]) {
      if (total(f) > 0) move_agreed(piece);
      if (piece.rest.defined()) piece.rest.zero_();
      piece.own.copy_(piece.agreed);
    }
    rows_[f] = 0;
  }
  if (settles) rows_in_all_ = 0;
  steps_ = begun_ = 0;
  ++over_;
  ++totals_.agreements;
}

void LocalExchange::average_buffers(double share, const Limits& limits) {
  for (const model::FlatModuleBuffer& buffer : replica_.buffers().values()) {
    if (buffer.merge == model::FlatModuleBuffer::Merge::kMean)
      average(buffer.values, share, limits);
    else
      group_->broadcast(buffer.values, 0, limits);
  }
}

// Step counts differ where a parameter was not reached on each replica.
void LocalExchange::average_moments(double share, const Limits& limits) {
  if (!replica_.has_optimizer()) return;
  for (const auto& [name, tensor] : replica_.optimizer().state()) {
    if (tensor.is_floating_point())
      average(tensor, share, limits);
    else
      comm::all_reduce(*group_, tensor, comm::ReduceOp::kMax, limits);
  }
  replica_.optimizer().state_changed();
}

void LocalExchange::average(const at::Tensor& tensor, double share, const Limits& limits) {
  const at::Tensor sum = group_->allocate(tensor.numel(), wide(tensor.scalar_type()), tensor.device());
  sum.copy_(tensor.view({-1}));
  sum_up(sum, share).wait(limits);
  (void)tensor.copy_(sum.view(tensor.sizes()));
}

// Agreed parameters, the outer momentum, buffers and frozen parameters travel only where somebody lacks them.
void LocalExchange::enter(comm::Group& group, Knows knows, const Limits& limits) {
  const at::NoGradGuard no_grad;
  undo_start();
  group_ = &group;
  wishes_ = asked_ = is_alone_ = false;
  if (agreed_.empty()) make_pieces();
  const bool is_new = knows == Knows::kNothing;
  const std::vector<double> mine{is_new ? -1.0 : static_cast<double>(over_), static_cast<double>(steps_),
                                 static_cast<double>(begun_), static_cast<double>(run_steps_)};
  std::vector<double> all(mine.size() * static_cast<std::size_t>(group.size()));
  group.all_gather(mine, all, limits);
  std::size_t newest = 0;
  bool differ = false;
  for (std::size_t at = mine.size(); at < all.size(); at += mine.size()) {
    differ = differ || all[at] != all[0];
    // Among equals the one that has made most steps since, or at all: another may wait for it in agree() or leave().
    const auto has = [&](std::size_t member) { return std::tuple(all[member], all[member + 1], all[member + 3]); };
    if (has(at) > has(newest)) newest = at;
  }
  if (all[newest] < 0)
    throw RunError("the ranks that knew the run's parameters are gone; go on from the last checkpoint");
  for (std::vector<Piece>& pieces : fragments_) {
    for (Piece& piece : pieces)
      piece.sum = group.allocate(piece.sum.numel(), piece.sum.scalar_type(), piece.sum.device());
  }
  if (!differ) return;
  const bool is_behind = mine[0] < all[newest];
  take_state(static_cast<int>(newest / mine.size()), is_behind, limits);
  if (!is_behind) return;
  for (std::size_t b = 0; b < agreed_.size(); ++b) {
    at::Tensor values = replica_.parameters().buffers()[b].values;
    values.copy_(agreed_[b]);
  }
  const auto count = [&](std::size_t number) { return static_cast<std::int64_t>(all[newest + number]); };
  begin();
  over_ = count(0);
  steps_ = count(1);
  begun_ = count(2);
  run_steps_ = count(3);
  count_steps_of_others();
}

// One that waits in agree() or leave() counts the others' exchanges, but not the steps between them.
void LocalExchange::count_steps_of_others() {
  const std::int64_t missed = begun_ * options_.every / options_.fragments - steps_;
  if (missed <= 0) return;
  steps_ += missed;
  run_steps_ += missed;
}

// All has come before anything is changed, so that who loses the others meanwhile has the state that its counts are of.
void LocalExchange::take_state(int root, bool is_behind, const Limits& limits) {
  model::NamedTensors state = besides();
  for (std::size_t b = 0; b < agreed_.size(); ++b) state.emplace_back(concat("agreed.", b), agreed_[b]);
  for (const auto& each : replica_.state()) {
    if (each.first.starts_with("buffers.") || each.first.starts_with("frozen.")) state.push_back(each);
  }
  std::vector<at::Tensor> taken;
  for (const auto& [name, tensor] : state) {
    taken.push_back(tensor.clone());
    group_->broadcast(taken.back(), root, limits);
    totals_.bytes += static_cast<std::int64_t>(tensor.nbytes());
    if (!is_behind) taken.clear();
  }
  for (std::size_t i = 0; i < taken.size(); ++i) state[i].second.copy_(taken[i]);
}

}  // namespace tandem::sync
