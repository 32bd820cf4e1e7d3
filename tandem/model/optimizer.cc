#include "tandem/model/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/model/optimizer_state.h"

// The plan of a step, for each dense buffer: read the presence flags, have UpdatePlan cut the present parameters into
// stretches that one call can update (the plan is kept while the flags and counts of steps ask for the same cuts), and
// call the rule for each stretch. Sparse buffers are updated parameter by parameter. Counts of steps go up at the very
// end, so that a step that throws can be undone.
//
// A step in parts: each part keeps what it overwrites in the journal and updates its elements; end_parts() updates all
// other parameters as a whole step does. `done` counts by parameter how many elements parts have updated: a parameter
// that parts have begun must be whole by end_parts(), because its count of steps is one number.
namespace tandem::model {
namespace {

// On the CPU the scaled gradients of one call stay in the second-level cache, so scaling costs no pass over memory.
constexpr std::int64_t kMostAtOnce = 131072;  // elements

// Scalars are written in place: an operation for it costs a tenth of the whole update of a small policy.
void set_scalar(at::Tensor& scalar, double value) {
  if (!scalar.is_cpu()) {
    scalar.fill_(value);
  } else if (scalar.scalar_type() == at::kDouble) {
    *scalar.mutable_data_ptr<double>() = value;
  } else {
    *scalar.mutable_data_ptr<float>() = static_cast<float>(value);
  }
}

// ".f32" or ".f32.sparse": the end of the names of a buffer's tensors, which is of their dtype.
std::string suffix_of(const BufferState& its) {
  const at::ScalarType dtype = its.buffer->values.scalar_type();
  const char* brain = dtype == at::kBFloat16 ? "b" : "";
  return concat(".", brain, "f", 8 * c10::elementSize(dtype), its.buffer->sparse ? ".sparse" : "");
}

// Takes over which parameters are present. The flags of several ranks have been summed, so any number but zero counts.
void read_flags(BufferState& its, const at::Tensor& flags) {
  const at::Tensor here = flags.is_cpu() ? flags : flags.cpu();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, here.scalar_type(), "presence", [&] {
    const auto* present = here.const_data_ptr<scalar_t>();
    for (std::size_t s = 0; s < its.present.size(); ++s)
      its.present[s] = present[s] == static_cast<scalar_t>(0) ? 0 : 1;
  });
}

// Called before anything is written, so that a refused step changes nothing.
void refuse_other_than_rows(const BufferState& its, const std::vector<at::Tensor>& gradients) {
  for (std::size_t s = 0; s < its.buffer->slots.size(); ++s) {
    if (!gradients[s].defined() || gradients[s].sparse_dim() == 1) continue;
    throw DataError(concat("the sparse gradient of parameter \"", its.buffer->slots[s].name, "\" has ",
                           gradients[s].sparse_dim(),
                           " sparse dimensions; rows (one sparse dimension) can be applied"));
  }
}

}  // namespace

// A group with the rate of group 0 has exactly that, whatever it is set to; others keep their ratio to it.
double Optimizer::State::lr_of_group(std::size_t group) const {
  const double first = lr_of(rules[0]), own = lr_of(rules[group]);
  return own == first ? lr : lr == first ? own : own * (lr / first);
}

// Adds the state of a flat buffer, without moments, which take_memory() makes.
void Optimizer::State::add_buffer(const FlatBuffer& buffer) {
  BufferState& its = buffers.emplace_back(buffer);
  its.kept = {{0, buffer.values.numel()}};
  const auto options = buffer.values.options();
  its.steps = at::zeros({static_cast<std::int64_t>(buffer.slots.size())}, options.dtype(at::kLong));
  its.host_steps = its.steps.cpu();  // the same tensor when it is there already
  if (buffer.sparse) return;
  its.memory.step = {at::zeros({}, options.dtype(at::kFloat))};
  its.factor =
      at::zeros({}, at::device(at::kCPU).dtype(buffer.values.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
}

// Moments are made late, because keep_only() and keep_at() decide how many there are and where they lie.
void Optimizer::State::take_memory() {
  if (std::exchange(has_memory, true)) return;
  for (BufferState& its : buffers) {
    const auto options = its.buffer->values.options();
    std::int64_t kept = 0;
    for (const Elements& elements : its.kept) kept += elements.size();
    for (std::size_t i = 0; i < names.size(); ++i) its.moments.push_back(at::zeros({kept}, options));
    if (its.buffer->sparse) continue;
    const auto most = its.buffer->values.is_cpu() ? std::min(kMostAtOnce, kept) : kept;
    its.scaled = at::zeros({most}, options);
    if (needs_scratch(rules.front())) its.memory.scratch = at::empty({most}, options);
  }
}

// Updates all stretches of a plan. With a scale of 1 the rule reads the gradients where they are; else they are scaled
// into scratch memory, stretch by stretch, while they are in the cache. All parameters of a run have the same count of
// steps.
void Optimizer::State::apply(BufferState& its, UpdatePlan& plan) {
  set_scalar(its.factor, scale);
  for (auto& run : plan.runs()) {
    const auto group = static_cast<std::size_t>(run.group);
    const auto& rule = rules[group];
    const std::int64_t count = its.step_counts()[run.first_slot] + 1;
    set_scalar(its.memory.step[0], static_cast<double>(count));
    const double lr_now = lr_of_group(group) * lr_factor;
    for (std::size_t i = 0; i < run.stretches.size(); ++i) {
      auto& stretch = run.stretches[i];
      if (step == Step::kInParts) its.journal->keep(run.elements[i]);
      if (scale == 1 && !writes_gradients(rule)) {
        std::swap(stretch.gradients[0], run.unscaled[i]);
        update(rule, lr_now, count, its.memory, stretch);
        std::swap(stretch.gradients[0], run.unscaled[i]);
      } else {
        at::mul_out(stretch.gradients[0], run.unscaled[i], its.factor);
        update(rule, lr_now, count, its.memory, stretch);
      }
    }
  }
}

// Updates the present parameters of a dense buffer, but for those that parts of this step have updated already.
void Optimizer::State::step_dense(BufferState& its, const at::Tensor& flat, const at::Tensor& flags) {
  read_flags(its, flags);
  for (std::size_t s = 0; s < its.slots(); ++s) {
    const auto all = extent_of(*its.buffer, s).size();
    TANDEM_CHECK(its.done[s] == 0 || its.done[s] == all, "parts of a step had ", its.done[s], " of ", all,
                 " elements of '", its.buffer->slots[s].name, "'");
    its.due[s] = its.done[s] != 0 ? 0 : its.present[s];
    its.present[s] = its.done[s] != 0 ? 1 : its.present[s];
  }
  its.whole.make(its, rules, its.due, flat);
  apply(its, its.whole);
}

void Optimizer::State::step_sparse(BufferState& its, const std::vector<at::Tensor>& gradients) {
  for (std::size_t s = 0; s < its.slots(); ++s) {
    if (!gradients[s].defined()) continue;
    const auto& slot = its.buffer->slots[s];
    const auto view = [&](const at::Tensor& flat) { return flat.narrow(0, slot.offset, slot.count).view(slot.shape); };
    at::Tensor gradient = gradients[s].coalesce();
    if (scale != 1) gradient = gradient.mul(scale).coalesce();
    at::Tensor values = view(its.buffer->values);
    std::array<at::Tensor, 2> shaped;
    for (std::size_t m = 0; m < its.moments.size(); ++m) shaped[m] = view(its.moments[m]);
    const auto group = static_cast<std::size_t>(slot.group);
    update_rows(rules[group], lr_of_group(group) * lr_factor, ++its.step_counts()[s], gradient, values, shaped);
  }
}

// Faults of all groups' numbers are reported together; sparse gradients are judged by rules whose numbers are fine.
Optimizer::Optimizer(FlatParameters& parameters, std::vector<OptimizerOptions> per_group)
    : state_(std::make_unique<State>(State{.parameters = parameters, .rules = std::move(per_group)})) {
  auto& rules = state_->rules;
  const auto groups = static_cast<std::size_t>(parameters.groups());
  std::vector<std::string> faults;
  if (rules.size() != 1 && rules.size() != groups) {
    throw ConfigError(concat("the optimizer has options for ", rules.size(), " parameter groups, the model has ",
                             groups, "; give one for all or one for each"));
  }
  for (std::size_t g = 0; g < rules.size(); ++g) {
    check_rule(rules[g], rules.size() == 1 ? "all groups" : concat("group ", g), faults);
    if (rules[g].index() == rules[0].index()) continue;
    faults.push_back(concat("the optimizer of group ", g, " is of another kind than that of group 0"));
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
  rules.resize(groups, rules.front());
  for (const auto& buffer : parameters.buffers()) {
    for (const auto& slot : buffer.slots) {
      if (buffer.sparse) check_sparse_rule(rules[static_cast<std::size_t>(slot.group)], slot.name, faults);
    }
  }
  if (!faults.empty()) throw ConfigError(std::move(faults));
  for (const auto& rule : rules) {
    if (auto names = moment_names(rule); names.size() > state_->names.size()) state_->names = std::move(names);
  }
  state_->lr = lr_of(rules.front());
  for (const auto& buffer : parameters.buffers()) state_->add_buffer(buffer);
}

Optimizer::~Optimizer() = default;

void Optimizer::keep_only(const std::vector<std::vector<Elements>>& kept) {
  TANDEM_CHECK(!state_->has_memory && !state_->home && kept.size() == state_->buffers.size(),
               "keep_only() after keep_at() or the first use, or for ", kept.size(), " of ", state_->buffers.size(),
               " buffers");
  state_->moments = State::Moments::kPartial;
  for (std::size_t b = 0; b < kept.size(); ++b) {
    if (!state_->buffers[b].buffer->sparse) state_->buffers[b].kept = kept[b];
  }
}

// From here on each BufferState is of the copy's buffer, which lies on `home` with the moments; sparse buffers are
// shared.
void Optimizer::keep_at(at::Device home) {
  TANDEM_CHECK(!state_->has_memory && !state_->home && state_->moments == State::Moments::kPartial,
               "keep_at() before keep_only(), after the first use, or twice");
  std::vector<std::vector<Elements>> kept;
  for (const BufferState& its : state_->buffers) kept.push_back(its.kept);
  state_->home.emplace(state_->parameters, std::move(kept), home);
  for (std::size_t b = 0; BufferState & its : state_->buffers) {
    its.buffer = &state_->home->buffers()[b++];
    if (!its.buffer->sparse) its.memory.step = {at::zeros({}, at::device(home).dtype(at::kFloat))};
  }
}

// The order matters: first what can be refused, then dense buffers, then sparse ones, whose updates may run out of
// memory, and at last the counts of steps.
void Optimizer::State::step_all(const FlatParameters::Gradients& gradients) {
  const at::NoGradGuard no_grad;
  take_memory();
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    if (buffers[b].buffer->sparse) refuse_other_than_rows(buffers[b], gradients.sparse[b]);
  }
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    if (!buffers[b].buffer->sparse) step_dense(buffers[b], gradients.flat[b], gradients.presence[b]);
  }
  for (std::size_t b = 0; b < buffers.size(); ++b) {
    if (buffers[b].buffer->sparse) step_sparse(buffers[b], gradients.sparse[b]);
  }
  for (BufferState& its : buffers) {
    for (std::size_t s = 0; s < its.slots() && !its.buffer->sparse; ++s) its.step_counts()[s] += its.present[s];
    if (!its.steps.is_cpu()) its.steps.copy_(its.host_steps);
  }
}

void Optimizer::step(const FlatParameters::Gradients& gradients, double scale, double lr_factor) {
  TANDEM_CHECK(state_->step == State::Step::kWhole, "a step within a step in parts");
  state_->scale = scale;
  state_->lr_factor = lr_factor;
  if (!state_->home) return state_->step_all(gradients);
  const at::NoGradGuard no_grad;
  state_->step_all(state_->home->bring(gradients));
  state_->home->give();
}

const std::vector<OptimizerOptions>& Optimizer::rules() const { return state_->rules; }

double Optimizer::learning_rate(std::size_t group) const { return state_->lr_of_group(group); }

void Optimizer::set_learning_rate(double lr) {
  if (!(lr >= 0) || !std::isfinite(lr)) throw ConfigError(concat("learning rate ", lr, " must be at least 0"));
  const double first = lr_of(state_->rules.front());
  for (const auto& rule : state_->rules) {
    if (first != 0 || lr_of(rule) == 0) continue;
    throw ConfigError(
        "group 0 was made with learning rate 0, so the other groups have no ratio to it that could be kept");
  }
  state_->lr = lr;
}

// Moments are made first if nobody has stepped yet, so that a state can be loaded into a new optimizer.
std::vector<std::pair<std::string, at::Tensor>> Optimizer::state() const {
  state_->take_memory();
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (const BufferState& its : state_->buffers) {
    const std::string suffix = suffix_of(its);
    for (std::size_t m = 0; m < its.moments.size() && !state_->is_partial(its); ++m)
      all.emplace_back(state_->names[m] + suffix, its.moments[m]);
    all.emplace_back("step" + suffix, its.steps);
  }
  return all;
}

std::vector<PartialMoment> Optimizer::partial_moments() const {
  state_->take_memory();
  std::vector<PartialMoment> all;
  for (std::size_t b = 0; b < state_->buffers.size(); ++b) {
    const BufferState& its = state_->buffers[b];
    for (std::size_t m = 0; m < its.moments.size() && state_->is_partial(its); ++m)
      all.push_back({.name = state_->names[m] + suffix_of(its), .buffer = b, .kept = its.moments[m]});
  }
  return all;
}

// Brings the copies that the optimizer keeps of others' tensors up to date.
void Optimizer::state_changed() {
  const at::NoGradGuard no_grad;
  if (state_->home) state_->home->take_values();
  for (BufferState& its : state_->buffers) {
    if (!its.steps.is_cpu()) its.host_steps.copy_(its.steps);
  }
}

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
