#include "tandem/model/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/home_copy.h"
#include "tandem/model/slot_alignment.h"
#include "tandem/model/update_journal.h"
#include "tandem/model/update_plan.h"
#include "tandem/model/update_rules.h"

namespace tandem::model {
namespace {

// On the CPU the scaled gradients of one call stay in the second-level cache, so scaling costs no pass over memory.
constexpr std::int64_t kMostAtOnce = 131072;  // elements

const char* short_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "f32";
    case at::kDouble:
      return "f64";
    case at::kHalf:
      return "f16";
    case at::kBFloat16:
      return "bf16";
    default:
      TANDEM_CHECK(false, "not a trainable dtype: ", dtype);
  }
}

// Optimizer state and plans of one flat buffer.
struct Part : BufferState {
  explicit Part(const FlatBuffer& of)
      : present(of.slots.size()), due(of.slots.size()), whole(of, {0, of.values.numel()}), done(of.slots.size()) {
    buffer = &of;
  }
  [[nodiscard]] std::size_t slots() const { return present.size(); }

  std::vector<char> present, due;  // by slot: whether the step is one of it; and whether the update at hand is
  UpdatePlan whole;
  // Of steps in parts.
  std::map<std::pair<std::int64_t, std::int64_t>, UpdatePlan> by_elements;
  std::vector<std::int64_t> done;  // by slot: elements of its extent that parts of this step were of
  std::optional<UpdateJournal> journal;
};

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

std::string suffix_of(const Part& part) {
  return concat(".", short_name(part.buffer->values.scalar_type()), part.buffer->sparse ? ".sparse" : "");
}

void read_flags(Part& part, const at::Tensor& flags) {
  const at::Tensor here = flags.is_cpu() ? flags : flags.cpu();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, here.scalar_type(), "presence", [&] {
    const auto* present = here.const_data_ptr<scalar_t>();
    for (std::size_t s = 0; s < part.present.size(); ++s)
      part.present[s] = present[s] == static_cast<scalar_t>(0) ? 0 : 1;
  });
}

// Before anything is written.
void refuse_other_than_rows(const Part& part, const std::vector<at::Tensor>& gradients) {
  for (std::size_t s = 0; s < part.buffer->slots.size(); ++s) {
    if (!gradients[s].defined() || gradients[s].sparse_dim() == 1) continue;
    throw DataError(concat("the sparse gradient of parameter \"", part.buffer->slots[s].name, "\" has ",
                           gradients[s].sparse_dim(),
                           " sparse dimensions; rows (one sparse dimension) can be applied"));
  }
}

}  // namespace

struct Optimizer::State {
  FlatParameters& parameters;
  std::vector<OptimizerOptions> rules;  // one a group
  double lr = 0;                        // of group 0
  std::vector<std::string> names;       // of the moments
  std::vector<Part> parts;
  enum class Moments { kWhole, kPartial } moments = Moments::kWhole;  // of dense buffers
  bool has_memory = false;                                            // for moments
  double scale = 1, lr_factor = 1;                                    // of the step at hand
  enum class Step { kWhole, kInParts } step = Step::kWhole;
  std::optional<HomeCopy> home{};  // of keep_at()

  [[nodiscard]] std::int64_t* steps_of(Part& part) const { return part.host_steps.mutable_data_ptr<std::int64_t>(); }
  [[nodiscard]] double lr_of_group(std::size_t group) const;
  [[nodiscard]] Part make_part(const FlatBuffer& buffer) const;
  void take_memory();
  [[nodiscard]] bool is_partial(const Part& part) const { return moments == Moments::kPartial && !part.buffer->sparse; }
  void keep_from_now();
  void apply(Part& part, UpdatePlan& plan);
  void step_dense(Part& part, const at::Tensor& flat, const at::Tensor& flags);
  void count_steps(Part& part) const;
  void step_all(const FlatParameters::Gradients& gradients);
  void step_sparse(Part& part, const std::vector<at::Tensor>& gradients);
};

// A group with the rate of group 0 has exactly that, whatever it is set to; others keep their ratio to it.
double Optimizer::State::lr_of_group(std::size_t group) const {
  const double first = lr_of(rules[0]), own = lr_of(rules[group]);
  return own == first ? lr : lr == first ? own : own * (lr / first);
}

Part Optimizer::State::make_part(const FlatBuffer& buffer) const {
  Part part(buffer);
  part.kept = {{0, buffer.values.numel()}};
  const auto options = buffer.values.options();
  part.steps = at::zeros({static_cast<std::int64_t>(buffer.slots.size())}, options.dtype(at::kLong));
  part.host_steps = part.steps.cpu();  // the same tensor when it is there already
  if (buffer.sparse) return part;
  part.memory.step = {at::zeros({}, options.dtype(at::kFloat))};
  part.factor =
      at::zeros({}, at::device(at::kCPU).dtype(buffer.values.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
  return part;
}

void Optimizer::State::take_memory() {
  if (std::exchange(has_memory, true)) return;
  for (Part& part : parts) {
    const auto options = part.buffer->values.options();
    std::int64_t kept = 0;
    for (const Elements& elements : part.kept) kept += elements.size();
    for (std::size_t i = 0; i < names.size(); ++i) part.moments.push_back(at::zeros({kept}, options));
    if (part.buffer->sparse) continue;
    const auto most = part.buffer->values.is_cpu() ? std::min(kMostAtOnce, kept) : kept;
    part.scaled = at::zeros({most}, options);
    if (needs_scratch(rules.front())) part.memory.scratch = at::empty({most}, options);
  }
}

void Optimizer::State::apply(Part& part, UpdatePlan& plan) {
  set_scalar(part.factor, scale);
  for (auto& run : plan.runs()) {
    const auto group = static_cast<std::size_t>(run.group);
    const auto& rule = rules[group];
    const std::int64_t count = steps_of(part)[run.first_slot] + 1;
    set_scalar(part.memory.step[0], static_cast<double>(count));
    const double lr_now = lr_of_group(group) * lr_factor;
    for (std::size_t i = 0; i < run.stretches.size(); ++i) {
      auto& stretch = run.stretches[i];
      if (step == Step::kInParts) part.journal->keep(run.elements[i].begin, run.elements[i].end);
      if (scale == 1 && !writes_gradients(rule)) {
        std::swap(stretch.gradients[0], run.unscaled[i]);
        update(rule, lr_now, count, part.memory, stretch);
        std::swap(stretch.gradients[0], run.unscaled[i]);
      } else {
        at::mul_out(stretch.gradients[0], run.unscaled[i], part.factor);
        update(rule, lr_now, count, part.memory, stretch);
      }
    }
  }
}

void Optimizer::State::step_dense(Part& part, const at::Tensor& flat, const at::Tensor& flags) {
  read_flags(part, flags);
  for (std::size_t s = 0; s < part.slots(); ++s) {
    const auto all = extent_of(*part.buffer, s).size();
    TANDEM_CHECK(part.done[s] == 0 || part.done[s] == all, "parts of a step had ", part.done[s], " of ", all,
                 " elements of '", part.buffer->slots[s].name, "'");
    part.due[s] = part.done[s] != 0 ? 0 : part.present[s];
    part.present[s] = part.done[s] != 0 ? 1 : part.present[s];
  }
  part.whole.make(part, rules, part.due, flat);
  apply(part, part.whole);
}

void Optimizer::State::count_steps(Part& part) const {
  for (std::size_t s = 0; s < part.slots(); ++s) steps_of(part)[s] += part.present[s];
  if (!part.steps.is_cpu()) part.steps.copy_(part.host_steps);
}

void Optimizer::State::step_sparse(Part& part, const std::vector<at::Tensor>& gradients) {
  std::int64_t* steps = steps_of(part);
  for (std::size_t s = 0; s < part.buffer->slots.size(); ++s) {
    if (!gradients[s].defined()) continue;
    const auto& slot = part.buffer->slots[s];
    const auto view = [&](const at::Tensor& flat) { return flat.narrow(0, slot.offset, slot.count).view(slot.shape); };
    at::Tensor gradient = gradients[s].coalesce();
    if (scale != 1) gradient = gradient.mul(scale).coalesce();
    at::Tensor values = view(part.buffer->values);
    std::array<at::Tensor, 2> shaped;
    for (std::size_t m = 0; m < part.moments.size(); ++m) shaped[m] = view(part.moments[m]);
    const auto group = static_cast<std::size_t>(slot.group);
    update_rows(rules[group], lr_of_group(group) * lr_factor, ++steps[s], gradient, values, shaped);
  }
  if (!part.steps.is_cpu()) part.steps.copy_(part.host_steps);
}

Optimizer::Optimizer(FlatParameters& parameters, std::vector<OptimizerOptions> per_group)
    : state_(std::make_unique<State>(
          State{.parameters = parameters, .rules = std::move(per_group), .names = {}, .parts = {}})) {
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
  for (const auto& buffer : parameters.buffers()) state_->parts.push_back(state_->make_part(buffer));
}

Optimizer::~Optimizer() = default;

void Optimizer::keep_only(const std::vector<std::vector<Elements>>& kept) {
  TANDEM_CHECK(!state_->has_memory && !state_->home && kept.size() == state_->parts.size(),
               "keep_only() after keep_at() or the first use, or for ", kept.size(), " of ", state_->parts.size(),
               " buffers");
  state_->moments = State::Moments::kPartial;
  for (std::size_t b = 0; b < kept.size(); ++b) {
    if (!state_->parts[b].buffer->sparse) state_->parts[b].kept = kept[b];
  }
}

void Optimizer::keep_at(at::Device home) {
  TANDEM_CHECK(!state_->has_memory && !state_->home && state_->moments == State::Moments::kPartial,
               "keep_at() before keep_only(), after the first use, or twice");
  std::vector<std::vector<Elements>> kept;
  for (const Part& part : state_->parts) kept.push_back(part.kept);
  state_->home.emplace(state_->parameters, std::move(kept), home);
  for (std::size_t b = 0; Part & part : state_->parts) {
    part.buffer = &state_->home->buffers()[b++];
    if (!part.buffer->sparse) part.memory.step = {at::zeros({}, at::device(home).dtype(at::kFloat))};
  }
}

void Optimizer::State::step_all(const FlatParameters::Gradients& gradients) {
  const at::NoGradGuard no_grad;
  take_memory();
  for (std::size_t b = 0; b < parts.size(); ++b) {
    if (parts[b].buffer->sparse) refuse_other_than_rows(parts[b], gradients.sparse[b]);
  }
  for (std::size_t b = 0; b < parts.size(); ++b) {
    if (!parts[b].buffer->sparse) step_dense(parts[b], gradients.flat[b], gradients.presence[b]);
  }
  for (std::size_t b = 0; b < parts.size(); ++b) {
    if (parts[b].buffer->sparse) step_sparse(parts[b], gradients.sparse[b]);
  }
  for (Part& part : parts) {
    if (!part.buffer->sparse) count_steps(part);
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

void Optimizer::State::keep_from_now() {
  for (Part& part : parts) {
    if (part.buffer->sparse) continue;
    TANDEM_CHECK(!is_partial(part) && !home && part.buffer->values.is_cpu(),
                 "a step in parts of some moments, in a copy, or not on the CPU");
    std::ranges::fill(part.done, 0);
    if (part.journal) continue;
    std::vector<at::Tensor> numbers = part.moments;
    numbers.push_back(part.buffer->values);
    part.journal.emplace(std::move(numbers));
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

void Optimizer::step_part(const FlatParameters::Gradients& gradients, std::size_t buffer, const Elements& elements) {
  TANDEM_CHECK(state_->step == State::Step::kInParts, "step_part() without begin_parts()");
  const at::NoGradGuard no_grad;
  Part& part = state_->parts[buffer];
  const FlatBuffer& all = *part.buffer;
  const auto is_border = [&all](std::int64_t element) {
    return element == all.values.numel() || aligned(element, all.values.scalar_type()) == element;
  };
  TANDEM_CHECK(elements.begin >= 0 && elements.begin < elements.end && elements.end <= all.values.numel() &&
                   is_border(elements.begin) && is_border(elements.end),
               "a part of the elements ", elements.begin, " to ", elements.end, " of ", all.values.numel());
  const Slots slots = slots_in(all, elements);
  for (std::size_t s = slots.begin; s < slots.end; ++s) {
    const Elements extent = extent_of(all, s);
    part.done[s] += std::min(extent.end, elements.end) - std::max(extent.begin, elements.begin);
    TANDEM_CHECK(part.done[s] <= extent.size(), "two updates of '", all.slots[s].name, "' in one step");
    part.due[s] = 1;
  }
  const auto key = std::pair(elements.begin, elements.end);
  UpdatePlan& plan = part.by_elements.try_emplace(key, all, elements).first->second;
  plan.make(part, state_->rules, part.due, gradients.flat[buffer]);
  state_->apply(part, plan);
}

void Optimizer::end_parts(const FlatParameters::Gradients& gradients) {
  TANDEM_CHECK(state_->step == State::Step::kInParts, "end_parts() without begin_parts()");
  state_->step_all(gradients);
  state_->step = State::Step::kWhole;
  for (Part& part : state_->parts) {
    std::ranges::fill(part.done, 0);
    if (part.journal) part.journal->forget();
  }
}

void Optimizer::undo_parts() noexcept {
  state_->step = State::Step::kWhole;
  for (Part& part : state_->parts) {
    std::ranges::fill(part.done, 0);
    if (part.journal) part.journal->undo();
  }
}

const std::vector<OptimizerOptions>& Optimizer::rules() const { return state_->rules; }

double Optimizer::learning_rate() const { return state_->lr; }

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

std::vector<std::pair<std::string, at::Tensor>> Optimizer::state() const {
  state_->take_memory();
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (const auto& part : state_->parts) {
    const std::string suffix = suffix_of(part);
    for (std::size_t m = 0; m < part.moments.size() && !state_->is_partial(part); ++m)
      all.emplace_back(state_->names[m] + suffix, part.moments[m]);
    all.emplace_back("step" + suffix, part.steps);
  }
  return all;
}

std::vector<PartialMoment> Optimizer::partial_moments() const {
  state_->take_memory();
  std::vector<PartialMoment> all;
  for (std::size_t b = 0; b < state_->parts.size(); ++b) {
    const Part& part = state_->parts[b];
    for (std::size_t m = 0; m < part.moments.size() && state_->is_partial(part); ++m)
      all.push_back({.name = state_->names[m] + suffix_of(part), .buffer = b, .kept = part.moments[m]});
  }
  return all;
}

void Optimizer::state_changed() {
  const at::NoGradGuard no_grad;
  if (state_->home) state_->home->take_values();
  for (auto& part : state_->parts) {
    if (!part.steps.is_cpu()) part.host_steps.copy_(part.steps);
  }
}

}  // namespace tandem::model
