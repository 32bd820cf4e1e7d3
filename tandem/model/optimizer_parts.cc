#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/model/optimizer_state.h"

// A step in parts: each part keeps what it overwrites in the journal and updates its elements; end_parts() updates all
// other parameters as a whole step does. `done` counts by parameter how many elements parts have updated: a parameter
// that parts have begun must be whole by end_parts(), because its count of steps is one number.
namespace tandem::model {

// Prepares the journals of all dense buffers; they take their memory at the first step in parts.
void Optimizer::State::keep_from_now() {
  for (BufferState& its : buffers) {
    if (its.buffer->sparse) continue;
    TANDEM_CHECK(!is_partial(its) && !home && its.buffer->values.is_cpu(),
                 "a step in parts of some moments, in a copy, or not on the CPU");
    std::ranges::fill(its.done, 0);
    if (its.journal) continue;
    std::vector<at::Tensor> numbers = its.moments;
    numbers.push_back(its.buffer->values);
    its.journal.emplace(std::move(numbers));
  }
}

void Optimizer::begin_parts(double scale, double lr_factor) {
  TANDEM_CHECK(state_->step == State::Step::kWhole, "a step in parts within another");
  state_->take_memory();
  state_->keep_from_now();
  state_->step = State::Step::kInParts;
  state_->scale = scale;
  state_->lr_factor = lr_factor;
}

// Marks the parameters that the elements belong to, and applies a plan for exactly these elements. Plans are kept by
// their elements, since every step is cut alike.
void Optimizer::step_part(const FlatParameters::Gradients& gradients, std::size_t buffer, const Elements& elements) {
  TANDEM_CHECK(state_->step == State::Step::kInParts, "step_part() without begin_parts()");
  const at::NoGradGuard no_grad;
  BufferState& its = state_->buffers[buffer];
  const FlatBuffer& all = *its.buffer;
  const auto is_border = [&all](std::int64_t element) {
    return element == all.values.numel() || aligned(element, all.values.scalar_type()) == element;
  };
  TANDEM_CHECK(elements.begin >= 0 && elements.begin < elements.end && elements.end <= all.values.numel() &&
                   is_border(elements.begin) && is_border(elements.end),
               "a part of the elements ", elements.begin, " to ", elements.end, " of ", all.values.numel());
  const Slots slots = slots_in(all, elements);
  for (std::size_t s = slots.begin; s < slots.end; ++s) {
    const Elements extent = extent_of(all, s);
    its.done[s] += std::min(extent.end, elements.end) - std::max(extent.begin, elements.begin);
    TANDEM_CHECK(its.done[s] <= extent.size(), "two updates of '", all.slots[s].name, "' in one step");
    its.due[s] = 1;
  }
  const auto key = std::pair(elements.begin, elements.end);
  UpdatePlan& plan = its.by_elements.try_emplace(key, all, elements).first->second;
  plan.make(its, state_->rules, its.due, gradients.flat[buffer]);
  state_->apply(its, plan);
}

void Optimizer::end_parts(const FlatParameters::Gradients& gradients) {
  TANDEM_CHECK(state_->step == State::Step::kInParts, "end_parts() without begin_parts()");
  state_->step_all(gradients);
  state_->step = State::Step::kWhole;
  for (BufferState& its : state_->buffers) {
    std::ranges::fill(its.done, 0);
    if (its.journal) its.journal->forget();
  }
}

// Counts of steps were not changed yet, so the journals hold all that there is to undo.
void Optimizer::undo_parts() noexcept {
  state_->step = State::Step::kWhole;
  for (BufferState& its : state_->buffers) {
    std::ranges::fill(its.done, 0);
    if (its.journal) its.journal->undo();
  }
}

}  // namespace tandem::model
