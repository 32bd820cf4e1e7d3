#include "tandem/sync/replicated.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>

#include "tandem/base/equal_parts.h"
#include "tandem/concurrency/trace.h"
#include "tandem/model/state_hash.h"

namespace tandem::sync {
namespace {

std::string state_name(const model::PartialMoment& moment) { return kOptimizerState + moment.name; }

struct Variable {
  std::size_t buffer = 0;
  std::int64_t begin = 0, end = 0;  // elements up to the next variable, so that padding has an owner, too
  std::int64_t bytes = 0;
};

// All dense parameters, in the order of the flat memory.
std::vector<Variable> variables_of(const model::FlatParameters& parameters) {
  std::vector<Variable> all;
  for (std::size_t b = 0; b < parameters.buffers().size(); ++b) {
    const model::FlatBuffer& buffer = parameters.buffers()[b];
    if (buffer.sparse) continue;
    const auto element_bytes = static_cast<std::int64_t>(buffer.values.element_size());
    for (std::size_t s = 0; s < buffer.slots.size(); ++s) {
      const std::int64_t end = s + 1 < buffer.slots.size() ? buffer.slots[s + 1].offset : buffer.values.numel();
      all.push_back({b, buffer.slots[s].offset, end, buffer.slots[s].count * element_bytes});
    }
  }
  return all;
}

}  // namespace

Ownership divide_equally(const model::FlatParameters& parameters, int members) {
  Ownership ownership;
  for (const model::FlatBuffer& buffer : parameters.buffers()) {
    std::vector<comm::OwnedPart> parts;
    const EqualParts cut(buffer.values.numel(), members);
    for (int member = 0; member < members && !buffer.sparse; ++member)
      parts.push_back({.owner = member, .begin = cut.begin(member), .end = cut.begin(member + 1)});
    ownership.push_back(comm::merged(parts));
  }
  return ownership;
}

// Every member computes the same plan: the sort is stable, and the first server of the least load is taken.
Ownership place_by_load(const model::FlatParameters& parameters, int servers) {
  std::vector<Variable> variables = variables_of(parameters);
  std::ranges::stable_sort(variables, std::ranges::greater(), &Variable::bytes);
  std::vector<std::int64_t> load(static_cast<std::size_t>(servers));
  Ownership ownership(parameters.buffers().size());
  for (const Variable& variable : variables) {
    const auto least = std::ranges::min_element(load);
    *least += variable.bytes;
    ownership[variable.buffer].push_back(
        {.owner = static_cast<int>(least - load.begin()), .begin = variable.begin, .end = variable.end});
  }
  // In the order of elements, with neighbours of one owner joined, so that a group hands round few parts.
  for (std::vector<comm::OwnedPart>& parts : ownership) {
    std::ranges::sort(parts, {}, &comm::OwnedPart::begin);
    parts = comm::merged(parts);
  }
  return ownership;
}

std::vector<std::vector<model::Elements>> elements_of(const Ownership& ownership, int member) {
  std::vector<std::vector<model::Elements>> all;
  for (const std::vector<comm::OwnedPart>& parts : ownership) {
    std::vector<model::Elements>& its = all.emplace_back();
    for (const comm::OwnedPart& part : parts) {
      if (part.owner == member) its.push_back({.begin = part.begin, .end = part.end});
    }
  }
  return all;
}

Replicated::Replicated(Replica& replica, comm::Group& group, const MeanOptions& options, Ownership ownership)
    : replica_(replica), group_(group), ownership_(std::move(ownership)), mean_(replica, group, options) {
  if (!ownership_.empty()) replica.optimizer().keep_only(elements_of(ownership_, group.rank()));
}

// Moments of which each replica keeps a part are not broadcast: each part has one holder and is right where it is.
void Replicated::begin(const Limits& limits) {
  require_same_model(replica_, group_, limits);
  broadcast_state(replica_, group_, 0, limits);
  steps_ = 0;
}

// With owners, the update counts as waiting, because it ends with the exchange of the new values.
StepReport Replicated::step(double lr_factor, const Limits& limits) {
  const MeanGradient mean = mean_.form(lr_factor, steps_, limits);
  const Clock::time_point start = Clock::now();
  update(mean, limits);
  StepReport report = mean.report_of(++steps_);
  if (!ownership_.empty()) report.wait_seconds += seconds_since(start);
  return report;
}

// Makes this replica's update, and with owners hands the new values of each buffer round.
void Replicated::update(const MeanGradient& mean, const Limits& limits) {
  {
    const Span span("optimizer");
    replica_.optimizer().step(mean_.sums(), mean.scale, mean.lr_factor);
  }
  if (ownership_.empty()) return;
  const Span span("sync");
  for (std::size_t b = 0; b < ownership_.size(); ++b) {
    if (!ownership_[b].empty()) group_.share_parts(replica_.parameters().buffers()[b].values, ownership_[b], limits);
  }
}

void Replicated::leave(const Limits& limits) {
  while (const std::optional<MeanGradient> mean = mean_.form_without_mine(steps_, limits)) {
    update(*mean, limits);
    ++steps_;
  }
}

std::vector<model::PartialMoment> Replicated::partial_moments() {
  return ownership_.empty() ? std::vector<model::PartialMoment>{} : replica_.optimizer().partial_moments();
}

// Parts of a moment are put into one tensor at a time, by the same exchange that hands parameters round. All replicas
// take part; only the first of each process keeps the result.
model::NamedTensors Replicated::whole_state(const Limits& limits) {
  require_same_state(replica_, group_, kNoStateOfDrifted, limits);
  const at::NoGradGuard no_grad;
  const bool is_asked = replica_.placement().local == 0;
  model::NamedTensors whole = is_asked ? replica_.named_state() : model::NamedTensors{};
  for (const model::PartialMoment& moment : partial_moments()) {
    const at::Tensor flat = at::zeros_like(replica_.parameters().buffers()[moment.buffer].values);
    comm::unpack(moment.kept, flat, ownership_[moment.buffer], group_.rank());
    group_.share_parts(flat, ownership_[moment.buffer], limits);
    if (is_asked) whole.emplace_back(state_name(moment), flat.cpu());
  }
  return whole;
}

// A moment of which this replica keeps a part is read whole, behind the live tensors, and its part taken from there.
void Replicated::load_whole_state(const model::NamedTensors& state) {
  const at::NoGradGuard no_grad;
  model::NamedTensors live = replica_.named_state();
  const std::vector<model::PartialMoment> moments = partial_moments();
  const std::size_t first = live.size();
  for (const model::PartialMoment& moment : moments) {
    const at::Tensor& values = replica_.parameters().buffers()[moment.buffer].values;
    live.emplace_back(state_name(moment), at::empty(values.sizes(), values.options().device(at::kCPU)));
  }
  model::copy_named(state, live);
  for (std::size_t i = 0; i < moments.size(); ++i) {
    at::Tensor kept = moments[i].kept;
    kept.copy_(comm::packed(live[first + i].second, ownership_[moments[i].buffer], group_.rank()));
  }
  if (replica_.has_optimizer()) replica_.optimizer().state_changed();
}

}  // namespace tandem::sync
