#include "tandem/model/optimizer_state.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "tandem/base/check.h"

namespace tandem::model {
namespace {

// Adds the stretches of `range` to a run: those of its elements that are kept, no longer than the scratch memory. Kept
// elements lie one behind the other in the moments, so `kept_before` counts those of earlier ranges.
void append_stretches(const BufferState& state, const Elements& range, const at::Tensor& flat, Run& run) {
  std::int64_t kept_before = 0;
  for (const Elements& kept : state.kept) {
    const std::int64_t end = std::min(range.end, kept.end);
    for (std::int64_t at = std::max(range.begin, kept.begin); at < end; at += state.scaled.numel()) {
      const auto size = std::min(state.scaled.numel(), end - at);
      Stretch stretch{{state.buffer->values.narrow(0, at, size)}, {state.scaled.narrow(0, 0, size)}, {}};
      for (std::size_t m = 0; m < state.moments.size(); ++m)
        stretch.moments[m] = {state.moments[m].narrow(0, kept_before + at - kept.begin, size)};
      run.stretches.push_back(std::move(stretch));
      run.unscaled.push_back(flat.narrow(0, at, size));
      run.elements.push_back({at, at + size});
    }
    kept_before += kept.size();
  }
}

// Copies by address and size: a view for each stretch would cost more than the copy of a small one.
void copy_bytes(const at::Tensor& from, const at::Tensor& to, const Elements& which) {
  const auto element = static_cast<std::int64_t>(from.element_size());
  std::memcpy(static_cast<std::byte*>(to.mutable_data_ptr()) + which.begin * element,
              static_cast<const std::byte*>(from.const_data_ptr()) + which.begin * element,
              static_cast<std::size_t>(which.size() * element));
}

// Copies the elements of `which` between two flat vectors, of which one may lie on another device. Waits for each copy.
void copy_elements(const at::Tensor& to, const at::Tensor& from, const std::vector<Elements>& which) {
  for (const Elements& each : which)
    to.narrow(0, each.begin, each.size()).copy_(from.narrow(0, each.begin, each.size()));
}

}  // namespace

Elements extent_of(const FlatBuffer& buffer, std::size_t slot) {
  const std::int64_t end = slot + 1 < buffer.slots.size() ? buffer.slots[slot + 1].offset : buffer.values.numel();
  return {buffer.slots[slot].offset, end};
}

// Slots are sorted by offset. The elements may begin within a slot, which then comes before the first that begins in
// them.
Slots slots_in(const FlatBuffer& buffer, const Elements& elements) {
  const auto first_at = [&](std::int64_t element) {
    return static_cast<std::size_t>(std::ranges::lower_bound(buffer.slots, element, {}, &ParameterSlot::offset) -
                                    buffer.slots.begin());
  };
  std::size_t begin = first_at(elements.begin);
  if (begin > 0 && extent_of(buffer, begin - 1).end > elements.begin) --begin;
  return {begin, first_at(elements.end)};
}

UpdatePlan::UpdatePlan(const FlatBuffer& buffer, const Elements& elements)
    : elements_(elements), slots_(slots_in(buffer, elements)), wanted_(slots_.end - slots_.begin) {}

void UpdatePlan::make(const BufferState& state, const std::vector<OptimizerOptions>& rules,
                      std::span<const char> present, const at::Tensor& flat) {
  cut(state, rules, present);
  if (wanted_ != made_ || gradients_ != flat.const_data_ptr()) make_runs(state, flat);
}

// A slot continues the run of the one before it when both are present, of one group, and need the same update.
void UpdatePlan::cut(const BufferState& state, const std::vector<OptimizerOptions>& rules,
                     std::span<const char> present) {
  const auto& slots = state.buffer->slots;
  const auto* steps = state.host_steps.const_data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    const std::size_t s = slots_.begin + i;
    if (present[s] == 0) {
      wanted_[i] = kAbsent;
    } else if (i > 0 && wanted_[i - 1] != kAbsent && slots[s].group == slots[s - 1].group &&
               same_update(rules[static_cast<std::size_t>(slots[s].group)], steps[s - 1], steps[s])) {
      wanted_[i] = kContinues;
    } else {
      wanted_[i] = kStarts;
    }
  }
}

// Makes a run of each slot that starts one and all that continue it.
void UpdatePlan::make_runs(const BufferState& state, const at::Tensor& flat) {
  const auto& slots = state.buffer->slots;
  runs_.clear();
  for (std::size_t i = 0; i < wanted_.size();) {
    if (wanted_[i] == kAbsent) {
      ++i;
      continue;
    }
    const std::size_t first = slots_.begin + i;
    Run run{first, slots[first].group, {}, {}, {}};
    do ++i;
    while (i < wanted_.size() && wanted_[i] == kContinues);
    // To the next slot, gap included: zeros stay zeros there.
    const std::int64_t end = extent_of(*state.buffer, slots_.begin + i - 1).end;
    append_stretches(state, {std::max(slots[first].offset, elements_.begin), std::min(end, elements_.end)}, flat, run);
    runs_.push_back(std::move(run));
  }
  made_ = wanted_;
  gradients_ = flat.const_data_ptr();
}

UpdateJournal::UpdateJournal(std::vector<at::Tensor> vectors) : vectors_(std::move(vectors)) {
  for (const at::Tensor& vector : vectors_) {
    TANDEM_CHECK(vector.is_cpu() && vector.is_contiguous() && vector.sizes() == vectors_.front().sizes(),
                 "a journal of vectors of unequal length, or not in CPU memory");
    copies_.push_back(at::empty_like(vector));
  }
}

void UpdateJournal::keep(const Elements& elements) {
  kept_.push_back(elements);
  for (std::size_t i = 0; i < vectors_.size(); ++i) copy_bytes(vectors_[i], copies_[i], elements);
}

void UpdateJournal::undo() noexcept {
  for (const Elements& elements : kept_) {
    for (std::size_t i = 0; i < vectors_.size(); ++i) copy_bytes(copies_[i], vectors_[i], elements);
  }
  forget();
}

HomeCopy::HomeCopy(const FlatParameters& parameters, std::vector<std::vector<Elements>> kept, c10::Device home)
    : parameters_(parameters), kept_(std::move(kept)), home_(home), buffers_(parameters.buffers()) {
  for (FlatBuffer& buffer : buffers_) {
    if (!buffer.sparse) buffer.values = at::empty(buffer.values.sizes(), buffer.values.options().device(home_));
  }
  take_values();
}

// Memory for the gradients is taken by the first call. Sparse gradients stay where they are.
const FlatParameters::Gradients& HomeCopy::bring(const FlatParameters::Gradients& gradients) {
  gradients_.flat.resize(buffers_.size());
  gradients_.presence.resize(buffers_.size());
  gradients_.sparse = gradients.sparse;
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    if (buffers_[b].sparse) continue;
    at::Tensor& here = gradients_.flat[b];
    if (!here.defined()) here = at::empty(gradients.flat[b].sizes(), gradients.flat[b].options().device(home_));
    copy_elements(here, gradients.flat[b], kept_[b]);
    const std::int64_t count = buffers_[b].values.numel();
    gradients_.presence[b] = here.narrow(0, count, here.numel() - count);
    gradients_.presence[b].copy_(gradients.presence[b]);
  }
  return gradients_;
}

void HomeCopy::give() {
  gradients_.sparse.clear();
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    if (!buffers_[b].sparse) copy_elements(parameters_.buffers()[b].values, buffers_[b].values, kept_[b]);
  }
}

void HomeCopy::take_values() {
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    if (!buffers_[b].sparse) copy_elements(buffers_[b].values, parameters_.buffers()[b].values, kept_[b]);
  }
}

}  // namespace tandem::model
